/*
 * array_shape.h - the operand X of an operation on one array of up to 8 dimensions, and its shape,
 * which is a parameter of the request.
 *
 * The functions keep no state and may be called from any thread.
 */
#ifndef PROTO_ARRAY_SHAPE_H
#define PROTO_ARRAY_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/operands.h"
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

/* A request for an operation on X, and its fields. All pointers are borrowed. */
struct array_request {
    const struct parameter_table *parameters; /* among them `shape`, `dtype` and `x` */
    void *request;
    struct array_shape *shape;
    enum gemmd_dtype *dtype;
};

/* Takes over type and shape of X. GEMMD_ERR_MALFORMED if the parameters say something else. `title`
 * is the name of X in messages. */
enum gemmd_error array_operand_settle(const struct array_request *array, const struct tensor *x,
                                      const char *title, struct fault *fault);
/* Checks the format of the body of a request without a shape. GEMMD_ERR_MALFORMED if the body is
 * raw; arrays in another format have a shape. */
enum gemmd_error array_operand_check_format(enum format format, struct fault *fault);
/* GEMMD_ERR_MALFORMED if X is resident and sent too, or neither. */
enum gemmd_error array_operand_check_sent(const struct tensor *x, bool is_wanted,
                                          struct fault *fault);

#endif
