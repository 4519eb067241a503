/*
 * shape_text.h - a shape as the parameter `shape` of a request: "64,128".
 */
#ifndef CLIENT_SHAPE_TEXT_H
#define CLIENT_SHAPE_TEXT_H

#include <stdint.h>

enum { SHAPE_TEXT_BYTES = 192 };

/* Writes the first `rank` (at most 8) of `dims`, and returns `out`. A rank of 0 or more than 8 is
 * written as an invalid shape, which proto/ refuses. */
const char *shape_text(uint32_t rank, const uint64_t dims[8], char out[SHAPE_TEXT_BYTES]);

#endif
