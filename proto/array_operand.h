/*
 * array_operand.h - the operand X of an operation on one array, whose shape is a parameter of the
 * request.
 *
 * The functions keep no state and may be called from any thread.
 */
#ifndef PROTO_ARRAY_OPERAND_H
#define PROTO_ARRAY_OPERAND_H

#include "proto/array_shape.h"
#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/operands.h"
#include "proto/parameter.h"

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
