/*
 * tensor.h - a view onto a tensor in memory that another structure owns, and the formats of bodies
 * that hold tensors.
 *
 * A tensor owns no memory; the caller keeps the memory valid while the view is in use. The
 * functions keep no state and may be called from any thread.
 */
#ifndef PROTO_TENSOR_H
#define PROTO_TENSOR_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum { TENSOR_MAX_RANK = 8 };

/* Borrowed bytes with a type and a shape. The elements are contiguous and little-endian, in
 * row-major order, or in column-major order (first index fastest) if `fortran` is set. `data` need
 * not be aligned: the data of a tensor in a body start where the tensor's header ends. */
struct tensor {
    enum gemmd_dtype dtype;
    bool fortran;
    uint32_t rank; /* number of dimensions; 0 is a scalar, or marks an absent operand */
    uint64_t dims[TENSOR_MAX_RANK];
    const void *data; /* borrowed; `bytes` long; NULL if only type and shape are known */
    uint64_t bytes;
};

/* The format of a body. A raw body holds only the elements of the tensors, without types and
 * shapes. */
enum format { FORMAT_RAW, FORMAT_NPY, FORMAT_SAFETENSORS };

/* Returns the media type that a Content-Type header gives for the format; a static string. */
const char *format_media_type(enum format format);
/* Finds the format of a media type; false if no format has the media type. Case and parameters
 * (";charset=...") are ignored. "application/x-www-form-urlencoded", which curl --data-binary
 * sends, is FORMAT_RAW. */
bool format_from_media_type(const char *media_type, enum format *format);

/* Makes `tensor` a row-major view onto `data`, which stays the caller's and may be NULL. `dims` may
 * be tensor->dims. False if the size in bytes overflows or `rank` is greater than
 * TENSOR_MAX_RANK; `tensor` is then unchanged. */
bool tensor_init(struct tensor *tensor, enum gemmd_dtype dtype, const uint64_t *dims, uint32_t rank,
                 const void *data);
/* Copies the elements of a tensor to `out` in row-major order. `out` has tensor->bytes bytes and
 * does not overlap tensor->data. */
void tensor_copy_row_major(const struct tensor *tensor, void *out);
/* Writes the shape as text, such as "64,128", which is also the value of the header Gemmd-Shape.
 * The text is terminated, and cut if the text does not fit in `capacity` bytes. */
void tensor_shape_text(const struct tensor *tensor, char *out, uint32_t capacity);

#endif
