/*
 * tensor_request.h - the parameters of PUT /tensors/{name}, and the tensor in the request's body.
 *
 * A caller calls tensor_request_init, then parameter_set for each parameter, then
 * tensor_request_check when all parameters are set, then tensor_request_find, which may be called
 * repeatedly while the body is being received. No function does I/O. Only the reader of a
 * safetensors header allocates memory, which the reader frees before returning. Different requests
 * may be used by different threads; one request is used by one thread at a time.
 */
#ifndef PROTO_TENSOR_REQUEST_H
#define PROTO_TENSOR_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/array_shape.h"
#include "proto/error.h"
#include "proto/packed.h"
#include "proto/tensor.h"

struct tensor_request {
    enum gemmd_dtype dtype;    /* parameter `dtype`; f32 by default; a raw body's type */
    struct array_shape shape;  /* rank 0: not given */
    bool evictable;            /* the tensor may be evicted for other tensors */
    bool replicate;            /* every device of the daemon gets a copy, if it has room */
    bool contiguous;           /* the device keeps the rows one after another */
    enum packed_format format; /* the body is a file of packed weights (packed.h) */
    uint32_t bits;             /* of packed weights; 0: the format's own width */
    uint32_t given;            /* bit set of the parameters that were given */
};

/* The table of the parameters (parameter.h). */
extern const struct parameter_table tensor_parameter_table;

/* Sets every parameter to the default. */
void tensor_request_init(struct tensor_request *request);
/* Checks the parameters, when all are set. GEMMD_ERR_MALFORMED if the body is raw and the parameter
 * `shape` is missing, or if another parameter or the body contradicts `format`.
 * GEMMD_ERR_UNSUPPORTED if the format has no weights of so many bits. */
enum gemmd_error tensor_request_check(const struct tensor_request *request, enum format format,
                                      struct fault *fault);

/* Sets `*out` to the exact length of a raw body in bytes. False if the length overflows. */
bool tensor_request_raw_bytes(const struct tensor_request *request, uint64_t *out);

/* Finds the tensor in a body, unless the request has a `format` (packed_find finds packed weights):
 * in a body of `total` bytes, of which the first `length` bytes have been
 * received. `body` is the memory of the whole body; tensor->data points into `body`, to the
 * location of the tensor's data, which may not have been received yet. A safetensors body may hold
 * two tensors, `tensor` and the scales that belong to it, `scale` (gemm_scales.h); `scale` has rank
 * 0 if there are none, and its values have not been checked. GEMMD_ERR_MALFORMED if the body holds
 * anything else, or the tensor's type or shape contradicts the parameters, or the scales do not
 * fit the tensor. GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type of the body's array, or
 * scales for it. GEMMD_ERR_TOO_LARGE if the size of a raw tensor overflows. GEMMD_ERR_CONFLICT if
 * the tensor's header has not been received completely, which cannot happen if `length` is `total`.
 */
enum gemmd_error tensor_request_find(const struct tensor_request *request, enum format format,
                                     const void *body, uint64_t length, uint64_t total,
                                     struct tensor *tensor, struct tensor *scale,
                                     struct fault *fault);

/* Returns whether `name` is a valid tensor name: 1 to 128 of the characters A-Z a-z 0-9 . _ - */
bool tensor_name_valid(const char *name);

#endif
