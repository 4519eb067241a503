/*
 * input.h - the bytes of a file, mapped, or of a pipe, read to its end.
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
    uint64_t taken; /* how many of them an operand has used */
    bool mapped;
};

/* Opens a file, or standard input for "-". GEMMD_ERR_MALFORMED with a sentence. Released with
 * input_close, also after a failure. A file must not shrink while it is open. */
enum gemmd_error input_open(struct input *input, const char *path, struct fault *fault);
void input_close(struct input *input);

/* The format that a file's name tells: .npy, .safetensors, .bin or .raw. */
bool format_of_path(const char *path, enum format *format);
/* "npy", "safetensors" or "raw". */
bool format_from_name(const char *name, enum format *format);

#endif
