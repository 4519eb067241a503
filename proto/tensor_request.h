/*
 * tensor_request.h - what PUT /tensors/{name} asks for: which type and shape, kept how.
 *
 * The way of a request: tensor_request_init, tensor_request_set for each parameter,
 * tensor_request_check once all are in, then tensor_request_find, which may be asked while the body
 * still arrives. Nothing here does I/O, and nothing allocates but the reading of a safetensors
 * header; a request is used by one thread at a time.
 */
#ifndef PROTO_TENSOR_REQUEST_H
#define PROTO_TENSOR_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/tensor.h"

struct tensor_request {
    enum gemmd_dtype dtype; /* f32 by default; arrays say it themselves */
    uint32_t rank;          /* 0 until `shape` is given; arrays say it themselves */
    uint64_t dims[TENSOR_MAX_RANK];
    bool evictable;
    bool has_dtype, has_evictable; /* given */
};

void tensor_request_init(struct tensor_request *request);
/* Takes one name=value pair, already percent-decoded. Unknown and repeated names and bad values are
 * GEMMD_ERR_MALFORMED with the name in `field`. */
enum gemmd_error tensor_request_set(struct tensor_request *request, const char *name,
                                    const char *value, struct fault *fault);
/* Once all parameters are in: raw bodies need a shape. */
enum gemmd_error tensor_request_check(const struct tensor_request *request, enum format format,
                                      struct fault *fault);

/* Exact length in bytes of a raw body. False on overflow. */
bool tensor_request_raw_bytes(const struct tensor_request *request, uint64_t *out);

/* Finds the tensor in a body of `total` bytes, the first `length` of which are there; checks that
 * it is the only thing in it and what the parameters say it is. `tensor->data` points into `body`,
 * to where the data is or will be. GEMMD_ERR_CONFLICT: too little is there to tell; never if all
 * is. */
enum gemmd_error tensor_request_find(const struct tensor_request *request, enum format format,
                                     const void *body, uint64_t length, uint64_t total,
                                     struct tensor *tensor, struct fault *fault);

/* Whether a name can be a tensor's: 1 to 128 of A-Z a-z 0-9 . _ - */
bool tensor_name_valid(const char *name);

#endif
