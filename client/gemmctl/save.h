/*
 * save.h - results that are there already, into files.
 */
#ifndef GEMMCTL_SAVE_H
#define GEMMCTL_SAVE_H

#include "proto/error.h"
#include "proto/tensor.h"

/* A tensor and where it goes, as output_open of output.h takes them; all borrowed. */
struct save_file {
    const char *path, *name;
    enum format format;
    const struct tensor *tensor;
};
enum { SAVE_FILES_MAX = 2 };

/* Writes up to SAVE_FILES_MAX files. None appears before all are written. */
enum gemmd_error save(const struct save_file files[], uint32_t count, struct fault *fault);

#endif
