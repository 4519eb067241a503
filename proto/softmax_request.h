/*
 * softmax_request.h - the parameters of POST /softmax, and the operands in the request's body. The
 * result is Y = softmax(scale * X) over the last axis, or its logarithm.
 *
 * The rows of X can have lengths: one length for all rows that share the first `lens` indices.
 * Elements of a row from its length on are masked: their values have no influence, and Y has zeros
 * there (minus infinity if `log`).
 *
 * The functions are called in the order that reduce_request.h describes. Different requests may be
 * used by different threads; one request is used by one thread at a time.
 */
#ifndef PROTO_SOFTMAX_REQUEST_H
#define PROTO_SOFTMAX_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/array_shape.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"

enum { SOFTMAX_OPERANDS = 2 };

struct softmax_request {
    struct array_shape shape; /* of X; rank 0: not known yet */
    enum gemmd_dtype dtype, out;
    double scale; /* 1 by default */
    bool log;
    uint32_t lens; /* number of leading dimensions of X that have lengths; 0: no lengths */
    char x[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident X, or "" */
    char store[GEMM_TENSOR_NAME_MAX + 1];  /* name under which the result becomes resident, or "" */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given;     /* bit set of the parameters that were given */
    uint32_t elsewhere; /* bit set of the operands that are not resident and that a raw body leaves
                           out */
};

/* The operands, as views onto the body, which the caller owns; rank 0 if absent or resident. */
struct softmax_operands {
    union {
        struct {
            struct tensor lens; /* i32, the first dimensions of X */
            struct tensor x;
        };
        struct tensor all[SOFTMAX_OPERANDS];
    };
};

extern const struct operand_table softmax_operand_table;
extern const struct parameter_table softmax_parameter_table;

void softmax_request_init(struct softmax_request *request);
/* Whether a softmax of elements of type `dtype` can have a result of type `out`. */
bool softmax_offers(enum gemmd_dtype dtype, enum gemmd_dtype out);

/* Derives dtype and shape from the resident X. */
enum gemmd_error softmax_request_settle_resident(struct softmax_request *request,
                                                 const struct tensor *x, struct fault *fault);
/* Checks the parameters, as far as they are known, and fills in the default of `out`.
 * GEMMD_ERR_MALFORMED if the body is raw and the shape is not known, or `lens` is not less than the
 * number of dimensions; GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types. */
enum gemmd_error softmax_request_check(struct softmax_request *request, enum format format,
                                       struct fault *fault);
/* Sets `y` to the type and shape of the result, without data. False on overflow. */
bool softmax_request_result(const struct softmax_request *request, struct tensor *y);

/* Finds the operands in the front of a body (body_front.h), and completes the request with their
 * types and shapes. The values of the lengths are not checked. GEMMD_ERR_CONFLICT if the front is
 * too short. */
enum gemmd_error softmax_request_bind_front(struct softmax_request *request, enum format format,
                                            struct body_front *front,
                                            struct softmax_operands *operands, struct fault *fault);
/* As softmax_request_bind_front, for tensors that the caller has found. */
enum gemmd_error softmax_request_bind_tensors(struct softmax_request *request,
                                              struct softmax_operands *operands,
                                              struct fault *fault);
/* Checks the lengths, whose data must have been received. GEMMD_ERR_MALFORMED if a length is not
 * from 0 to the length of a row. */
enum gemmd_error softmax_request_check_lens(const struct softmax_request *request,
                                            const struct softmax_operands *operands,
                                            struct fault *fault);

#endif
