/*
 * tensor.h - a view onto a tensor that lies somewhere else, and the formats it travels in.
 */
#ifndef PROTO_TENSOR_H
#define PROTO_TENSOR_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum { TENSOR_MAX_RANK = 8 };

/* Borrowed bytes with a type and a shape. The bytes are contiguous and little-endian:
 * row-major, or column-major (first index fastest) if `fortran`. No alignment is promised:
 * a view onto a body starts wherever the body's header ended. */
struct tensor {
    enum gemmd_dtype dtype;
    bool fortran;
    uint32_t rank;
    uint64_t dims[TENSOR_MAX_RANK];
    const void *data; /* borrowed; `bytes` long */
    uint64_t bytes;
};

enum format { FORMAT_RAW, FORMAT_NPY, FORMAT_SAFETENSORS };

const char *format_media_type(enum format format);
/* The format of a media type, parameters (";charset=...") and case ignored.
 * "application/x-www-form-urlencoded" (curl --data-binary) is raw. */
bool format_from_media_type(const char *media_type, enum format *format);

/* Makes a contiguous row-major view, checking sizes; `data` stays borrowed.
 * false if the size overflows or rank > TENSOR_MAX_RANK. */
bool tensor_init(struct tensor *tensor, enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank,
                 const void *data);
/* Copies a column-major tensor to `out` (tensor->bytes long, no overlap) in row-major order. */
void tensor_copy_row_major(const struct tensor *tensor, void *out);
/* "64,128" into `out`; for the Gemmd-Shape header. */
void tensor_shape_text(const struct tensor *tensor, char *out, uint32_t capacity);

#endif
