/*
 * reduce_request.h - the parameters of POST /reduce, and the operand in the request's body. The
 * result is X reduced over one axis: sum, mean, max, min, norm2, logsumexp or argmax.
 *
 * A caller calls reduce_request_init, then parameter_set for each parameter, then
 * reduce_request_settle_resident if X is resident, then reduce_request_check when all parameters
 * are set, then reduce_request_bind_front or reduce_request_bind_tensors. No function does I/O.
 * Different requests may be used by different threads; one request is used by one thread at a time.
 */
#ifndef PROTO_REDUCE_REQUEST_H
#define PROTO_REDUCE_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/array_shape.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"

enum reduce_op {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_NORM2,
    REDUCE_LOGSUMEXP,
    REDUCE_ARGMAX,
    REDUCE_OP_COUNT
};
enum { REDUCE_OPERANDS = 1 };

struct reduce_request {
    struct array_shape shape; /* of X; rank 0: not known yet */
    enum reduce_op op;
    int32_t axis; /* as given, -8 ... 7; a negative axis counts from the last; -1 by default */
    bool keepdims;
    enum gemmd_dtype dtype, out;
    char x[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident X, or "" */
    char store[GEMM_TENSOR_NAME_MAX + 1];  /* name under which the result becomes resident, or "" */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given;     /* bit set of the parameters that were given */
    uint32_t elsewhere; /* bit 0: X is not resident, and a raw body leaves X out */
};

/* The operand, as a view onto the body, which the caller owns; rank 0 if X is resident. */
struct reduce_operands {
    union {
        struct {
            struct tensor x;
        };
        struct tensor all[REDUCE_OPERANDS];
    };
};

extern const struct operand_table reduce_operand_table;
extern const struct parameter_table reduce_parameter_table;

void reduce_request_init(struct reduce_request *request);
/* The value of the parameter `op`: "sum"; a static string. */
const char *reduce_op_name(enum reduce_op op);

/* The type of the result if the request has no parameter `out`. */
enum gemmd_dtype reduce_default_out(enum reduce_op op, enum gemmd_dtype dtype);
/* Whether an operation on elements of type `dtype` can have a result of type `out`. */
bool reduce_offers(enum reduce_op op, enum gemmd_dtype dtype, enum gemmd_dtype out);

/* Derives dtype and shape from the resident X. */
enum gemmd_error reduce_request_settle_resident(struct reduce_request *request,
                                                const struct tensor *x, struct fault *fault);
/* Checks the parameters, as far as they are known, and fills in the default of `out`.
 * GEMMD_ERR_MALFORMED if the body is raw and the shape is not known, or the axis is out of range;
 * GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types. */
enum gemmd_error reduce_request_check(struct reduce_request *request, enum format format,
                                      struct fault *fault);
/* The axis as an index, 0 ... rank - 1. The shape must be known, and the request checked. */
uint32_t reduce_request_axis(const struct reduce_request *request);
/* Sets `y` to the type and shape of the result, without data. A result without dimensions has the
 * shape [1]. False on overflow. */
bool reduce_request_result(const struct reduce_request *request, struct tensor *y);

/* Finds X in the front of a body (body_front.h), and completes the request with X's type and shape.
 * GEMMD_ERR_CONFLICT if the front is too short. */
enum gemmd_error reduce_request_bind_front(struct reduce_request *request, enum format format,
                                           struct body_front *front,
                                           struct reduce_operands *operands, struct fault *fault);
/* As reduce_request_bind_front, for a tensor that the caller has found. */
enum gemmd_error reduce_request_bind_tensors(struct reduce_request *request,
                                             struct reduce_operands *operands, struct fault *fault);

#endif
