/*
 * experts_request.h - the parameters of POST /experts, and the operands in the request's body.
 *
 *   C[r] = sum over j of weight[r, j] * act(A[r] * W[e] + bias[e]),   e = experts[r, j]
 *
 * kernels/experts.h has the formula with `glu`, and the order of the sum.
 *
 * A caller calls experts_request_init, then parameter_set for each parameter, then
 * experts_request_settle_residents if A or W is resident, then experts_request_check when all
 * parameters are set, then experts_request_bind_front when the body has been received, then
 * experts_request_check_numbers. No function does I/O. Only the reader of a safetensors header
 * allocates memory, which the reader frees before returning. Different requests may be used by
 * different threads; one request is used by one thread at a time.
 *
 * A is [m, k] and W is [count, k, columns], or [count, columns, k] with transb; there are n
 * columns, or 2 n with glu. The numbers of the experts are i32 [m, topk], and the weights f32 [m,
 * topk]; in arrays they may be [m] if topk is 1. The bias is [count, columns]. A and W have the
 * type `dtype`; the bias and C have the type `out`.
 */
#ifndef PROTO_EXPERTS_REQUEST_H
#define PROTO_EXPERTS_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/tensor.h"

enum { EXPERTS_OPERANDS = 5 };

/* The parameters of the request. */
struct experts_request {
    uint64_t m, n, k, count, topk; /* 0: not known yet */
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool transb, glu, weights, bias;
    enum gemm_act act;
    char a[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident A, or "" */
    char w[GEMM_TENSOR_NAME_MAX + 1];      /* name of the resident W, or "" */
    char store[GEMM_TENSOR_NAME_MAX + 1];  /* name under which C becomes resident, or "" */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given; /* bit set of the parameters that were given (parameter.h) */
    /* Bit set of the operands that are not resident and that a raw body leaves out. Operand i of
     * experts_operand_table is bit 1 << i. */
    uint32_t elsewhere;
};

/* The operands of a request, as views onto the body, which the caller owns. An absent operand has
 * rank 0. If an operand is `fortran`, the caller has to copy the operand with tensor_copy_row_major
 * before use. */
struct experts_operands {
    union {
        struct {
            struct tensor a, w, experts, weights, bias;
        };
        struct tensor all[EXPERTS_OPERANDS]; /* the same tensors, by index */
    };
};

/* The tables of the operands (operands.h) and of the parameters (parameter.h). The request of both
 * is a struct experts_request. */
extern const struct operand_table experts_operand_table;
extern const struct parameter_table experts_parameter_table;

/* Sets every parameter to the default. */
void experts_request_init(struct experts_request *request);

/* Whether the types of operands and result are offered. */
bool experts_offers(enum gemmd_dtype dtype, enum gemmd_dtype out);

/* The columns of an expert: n, or 2 n with glu. */
static inline uint64_t experts_request_columns(const struct experts_request *request)
{
    return request->glu ? 2 * request->n : request->n;
}

/* Derives dtype and the sizes from the resident A and the resident W, before experts_request_check;
 * NULL: not resident. dtype then counts as given. GEMMD_ERR_MALFORMED if a tensor contradicts the
 * parameters or the other tensor; GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type. */
enum gemmd_error experts_request_settle_residents(struct experts_request *request,
                                                  const struct tensor *a, const struct tensor *w,
                                                  struct fault *fault);

/* Checks the parameters of a request with a raw body, when all parameters are set. Does nothing for
 * the other formats, whose arrays give the sizes. GEMMD_ERR_MALFORMED if a size is not known.
 * GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types. */
enum gemmd_error experts_request_check(struct experts_request *request, enum format format,
                                       struct fault *fault);

/* The type and shape of C, when all sizes are known. False: the size overflows. */
bool experts_request_result(const struct experts_request *request, struct tensor *c);

/* Finds the operands in the front of a body, and completes the request with their shapes.
 * GEMMD_ERR_CONFLICT: the front is too short. GEMMD_ERR_MALFORMED and GEMMD_ERR_UNSUPPORTED if the
 * operands contradict the parameters or each other. */
enum gemmd_error experts_request_bind_front(struct experts_request *request, enum format format,
                                            struct body_front *front,
                                            struct experts_operands *operands, struct fault *fault);
/* As experts_request_bind_front, for operands that the caller has found. */
enum gemmd_error experts_request_bind_tensors(struct experts_request *request,
                                              struct experts_operands *operands,
                                              struct fault *fault);

/* Checks the numbers of the experts, when all their bytes have arrived. GEMMD_ERR_MALFORMED, with
 * the row in the message, if a number is not from -1 to count - 1. */
enum gemmd_error experts_request_check_numbers(const struct experts_request *request,
                                               const struct experts_operands *operands,
                                               struct fault *fault);

#endif
