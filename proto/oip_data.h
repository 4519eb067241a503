/*
 * oip_data.h - reads and writes tensors as JSON arrays of numbers, the `data` of an inference
 * request or response.
 *
 * Each number has to follow JSON's grammar and to lie in the range of the tensor's type. NaN,
 * Infinity and Inf, with an optional minus, are numbers for a tensor of floats, as in Triton's
 * JSON; NaN, Infinity and -Infinity are written. A number for a tensor of floats is rounded once,
 * to the nearest value of the type. A number with a fraction or an exponent is refused for a tensor
 * of integers, and for a tensor of type f8_e4m3, which JSON represents by its bytes. No function
 * allocates memory. Any thread; the program's locale has to be the C locale.
 */
#ifndef PROTO_OIP_DATA_H
#define PROTO_OIP_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/oip_json.h"
#include "proto/tensor.h"

/* Reads a tensor's `shape`, a JSON array of whole numbers, into `dims` and `*rank`. `name` is the
 * tensor's name for the fault. Returns GEMMD_ERR_MALFORMED if the array contains anything else than
 * whole numbers of at most 18 digits, or more than TENSOR_MAX_RANK numbers. */
enum gemmd_error oip_data_shape(const struct oip_array *array, const char *name,
                                uint64_t dims[TENSOR_MAX_RANK], uint32_t *rank,
                                struct fault *fault);
/* Reads a tensor's `data` into `out`. The JSON array is either flat or nested like the tensor's
 * shape. `tensor` gives the type and the shape; oip_datatype_has_json is true for the type. `out`
 * is tensor->bytes bytes long, aligned to the element size, and filled in row-major order. `name`
 * is the tensor's name for the fault. Returns GEMMD_ERR_MALFORMED, and leaves the content of `out`
 * unspecified, if the array is not JSON or does not fit the type and the shape. */
enum gemmd_error oip_data_read(const struct oip_array *array, const char *name,
                               const struct tensor *tensor, void *out, struct fault *fault);

/* Returns the most bytes of JSON that oip_data_write writes for one element and its comma. */
uint32_t oip_data_text_max(enum gemmd_dtype dtype);
/* Writes the elements `from` to `to` - 1 of a row-major tensor to `out`, with a comma before each
 * element except element 0 and without a terminator. oip_datatype_has_json is true for the
 * tensor's type. A float is written with as many digits as are needed to read the same value again.
 * Returns the end of the text. */
char *oip_data_write(const struct tensor *tensor, uint64_t from, uint64_t to, char *out);

#endif
