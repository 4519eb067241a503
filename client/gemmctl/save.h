/*
 * save.h - writes results that are in memory to files.
 */
#ifndef GEMMCTL_SAVE_H
#define GEMMCTL_SAVE_H

#include "proto/error.h"
#include "proto/tensor.h"

/* A tensor and its file; the members are arguments of output_open (output.h), and are borrowed. */
struct save_file {
    const char *path, *name;
    enum format format;
    const struct tensor *tensor;
    const struct tensor *scale; /* NULL: the file holds the tensor alone; else `format` is
                                   FORMAT_SAFETENSORS, and `name` is not used */
};
enum { SAVE_FILES_MAX = 2 };

/* Writes up to SAVE_FILES_MAX files. No file appears before all of them are written. On failure
 * `fault` has a sentence. */
enum gemmd_error save(const struct save_file files[], uint32_t count, struct fault *fault);

#endif
