/*
 * input.h - the bytes of a file, which is mapped, or of a pipe, which is read to its end.
 */
#ifndef GEMMCTL_INPUT_H
#define GEMMCTL_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/tensor.h"

struct input {
    const char *name; /* for messages; borrowed */
    unsigned char *data;
    uint64_t bytes;
    uint64_t taken; /* number of bytes, from the front, that operands have used */
    bool mapped;
};

/* Opens a file, or standard input if `path` is "-". GEMMD_ERR_MALFORMED with a sentence in `fault`.
 * The caller calls input_close in any case, also after a failure. A file must not become shorter
 * while it is open. */
enum gemmd_error input_open(struct input *input, const char *path, struct fault *fault);
void input_close(struct input *input);

/* Sets `*format` by the end of a file's name: .npy, .safetensors, .bin or .raw. False: the name
 * tells no format. */
bool format_of_path(const char *path, enum format *format);
/* Sets `*format` by its name: "npy", "safetensors" or "raw". False: there is no such format. */
bool format_from_name(const char *name, enum format *format);

#endif
