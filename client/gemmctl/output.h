/*
 * output.h - the file that C goes to: complete under its name, or not there.
 *
 * A regular file is written under a temporary name beside it, which the result arrives in
 * directly, and renamed at the end. Pipes and devices get the bytes when all are there.
 */
#ifndef GEMMCTL_OUTPUT_H
#define GEMMCTL_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/npy.h"
#include "proto/safetensors.h"

struct output {
    const char *name; /* for messages; borrowed */
    int fd;
    char *path, *temporary; /* NULL for what is not renamed */
    unsigned char *data;    /* header and result: the mapped file, or memory */
    uint64_t header_bytes, bytes;
    bool mapped;
};

/* Makes room for `result` (whose data is not looked at) in a file of that format, or for
 * standard output if `path` is "-"; a safetensors file calls it `tensor_name`, cut off at 63
 * characters. Released with output_close in any case. GEMMD_ERR_IO with a
 * sentence. */
enum gemmd_error output_open(struct output *output, const char *path, enum format format,
                             const char *tensor_name, const struct tensor *result,
                             struct fault *fault);
/* Where the result's bytes are to be put. */
void *output_data(struct output *output);
/* Makes the file appear. */
enum gemmd_error output_commit(struct output *output, struct fault *fault);
/* Without a commit before it, leaves nothing behind. */
void output_close(struct output *output);

#endif
