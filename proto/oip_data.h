/*
 * oip_data.h - tensors as JSON arrays of numbers: a request's `data`, and an answer's.
 *
 * Numbers are those of JSON, in the range of the tensor's type, rounded once to it: none is cut.
 * Any thread, in the C locale.
 */
#ifndef PROTO_OIP_DATA_H
#define PROTO_OIP_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/oip_json.h"
#include "proto/tensor.h"

/* An array of whole numbers, a tensor's shape. GEMMD_ERR_MALFORMED names the tensor. */
enum gemmd_error oip_data_shape(const struct oip_array *array, const char *name,
                                uint64_t dims[TENSOR_MAX_RANK], uint32_t *rank,
                                struct fault *fault);
/* Reads `data`, flat or nested as the shape is, into `out`, which is tensor->bytes long and aligned
 * to the elements. The type has JSON (oip_datatype_has_json). */
enum gemmd_error oip_data_read(const struct oip_array *array, const char *name,
                               const struct tensor *tensor, void *out, struct fault *fault);

/* The most text that an element takes, with its comma. */
uint32_t oip_data_text_max(enum gemmd_dtype dtype);
/* Writes elements `from` to `to` of a row-major tensor (FP64, FP32, INT32) with commas between all;
 * no terminator. Floats are as long as it takes to read the same number again. Returns the end, or
 * NULL at one that JSON cannot say (NaN, infinity). */
char *oip_data_write(const struct tensor *tensor, uint64_t from, uint64_t to, char *out);

#endif
