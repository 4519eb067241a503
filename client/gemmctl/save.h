/*
 * save.h - a result that is there already, into a file.
 */
#ifndef GEMMCTL_SAVE_H
#define GEMMCTL_SAVE_H

#include "proto/error.h"
#include "proto/tensor.h"

/* As output_open, output_commit and output_close of output.h, with `result`'s data between. */
enum gemmd_error save(const char *path, enum format format, const char *tensor_name,
                      const struct tensor *result, struct fault *fault);

#endif
