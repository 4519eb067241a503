/*
 * output.h - the file that a result is written to. The file appears under its name when it is
 * complete, or not at all.
 *
 * The result of a regular file arrives in a mapped file with a temporary name in the same folder,
 * which is renamed at the end. Pipes and devices get the bytes after the whole result has arrived.
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
    char *path, *temporary; /* NULL for a pipe or a device, which is not renamed */
    unsigned char *data;    /* the file's header and the result: the mapped file, or memory */
    uint64_t header_bytes, bytes;
    bool mapped;
};

/* Opens a file in the format, or standard output if `path` is "-", and makes room for `result`, of
 * which only type and shape are used. A safetensors file calls the result `tensor_name`, cut off at
 * 63 characters. GEMMD_ERR_IO with a sentence in `fault`. The caller calls output_close in any
 * case. */
enum gemmd_error output_open(struct output *output, const char *path, enum format format,
                             const char *tensor_name, const struct tensor *result,
                             struct fault *fault);
/* As output_open, for a safetensors file of two tensors, which the file calls "scale" and "tensor",
 * in this order; the bytes of the scales come before those of the tensor. */
enum gemmd_error output_open_scaled(struct output *output, const char *path,
                                    const struct tensor *scale, const struct tensor *tensor,
                                    struct fault *fault);
/* As output_open, for a file that has `bytes` bytes of `text`, at least one, and nothing else. */
enum gemmd_error output_open_text(struct output *output, const char *path, const char *text,
                                  uint64_t bytes, struct fault *fault);
/* The room for the result's bytes. */
void *output_data(struct output *output);
/* Makes the file appear under its name, or writes the bytes to the pipe or device. */
enum gemmd_error output_commit(struct output *output, struct fault *fault);
/* Releases the output. Without output_commit before, no file is left behind. */
void output_close(struct output *output);

#endif
