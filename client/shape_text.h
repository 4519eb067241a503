/*
 * shape_text.h - a shape as the parameter `shape` of a request: "64,128".
 */
#ifndef CLIENT_SHAPE_TEXT_H
#define CLIENT_SHAPE_TEXT_H

#include <stdint.h>

#include "proto/error.h"

enum { SHAPE_TEXT_BYTES = 192 };

/* GEMMD_ERR_MALFORMED, with the field "rank", if a rank is not from 1 to 8. */
enum gemmd_error shape_check_rank(uint32_t rank, struct fault *fault);

/* Writes the first `rank` of `dims`, and returns `out`. A rank of 0 or more than 8 is written as
 * "none", which is not a shape. */
const char *shape_text(uint32_t rank, const uint64_t dims[8], char out[SHAPE_TEXT_BYTES]);

#endif
