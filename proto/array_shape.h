/*
 * array_shape.h - the shape of an array of up to 8 dimensions, as a parameter of a request.
 *
 * The functions keep no state and may be called from any thread.
 */
#ifndef PROTO_ARRAY_SHAPE_H
#define PROTO_ARRAY_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/parameter.h"
#include "proto/tensor.h"

#define ARRAY_SHAPE_ALLOWED "1 to 8 whole numbers from 1 to 2147483647, such as 64,128"

/* A shape; rank 0: not known. */
struct array_shape {
    uint32_t rank;
    uint64_t dims[TENSOR_MAX_RANK];
};

/* Parses "64,128" to a struct array_shape; the values of a parameter with such a field. */
bool array_shape_read(const char *value, void *out);
extern const struct parameter_values array_shape_values;

/* Compares a shape with that of a tensor. If the shape is not known, it becomes the tensor's.
 * GEMMD_ERR_MALFORMED, with the parameter `shape` as the field, if the two differ or a dimension of
 * the tensor is not from 1 to GEMM_DIM_MAX. `title` is the tensor's name in the message. */
enum gemmd_error array_shape_settle(struct array_shape *shape, const struct tensor *tensor,
                                    const char *title, struct fault *fault);

/* Writes "64,128". The text is cut if it does not fit in `room` bytes. */
void array_shape_text(const struct array_shape *shape, char *out, uint32_t room);

#endif
