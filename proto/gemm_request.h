/*
 * gemm_request.h - what POST /gemm asks for: C = act(alpha*op(A)*op(B) + beta*C0 + bias).
 *
 * The way of a request: gemm_request_init, gemm_request_set for each parameter,
 * gemm_request_settle_residents if operands are resident, gemm_request_check once all are in, then
 * gemm_request_bind when the body is there, which finds the operands in it. Nothing here does I/O,
 * and nothing allocates but the reading of a safetensors header; a request is used by one thread at
 * a time.
 */
#ifndef PROTO_GEMM_REQUEST_H
#define PROTO_GEMM_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"
#include "proto/tensor.h"

enum gemm_precision { GEMM_PRECISION_FULL, GEMM_PRECISION_TF32 };
enum gemm_act { GEMM_ACT_NONE, GEMM_ACT_RELU, GEMM_ACT_GELU, GEMM_ACT_GELU_TANH, GEMM_ACT_SILU };
enum gemm_verify { GEMM_VERIFY_NONE, GEMM_VERIFY_FREIVALDS };

enum {
    GEMM_DIM_MAX = 2147483647, /* m, n, k and batch: 1 ... 2^31-1 */
    GEMM_KERNEL_NAME_MAX = 32,
    GEMM_TENSOR_NAME_MAX = 128,
    GEMM_PRIORITY_MAX = 9,
    GEMM_PRIORITY_DEFAULT = 4
};

/* The operands of a raw body, in their order; as bits. */
enum { GEMM_OPERANDS = 4 };
enum { GEMM_OPERAND_A = 1, GEMM_OPERAND_B = 2, GEMM_OPERAND_BIAS = 4, GEMM_OPERAND_C0 = 8 };

/* The parameters, in the order of API.md's table. */
struct gemm_request {
    uint64_t m, n, k; /* 0 until given or derived from the operands' shapes */
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    bool transa, transb;
    double alpha, beta;
    uint64_t batch;
    bool one_b; /* B is resident and one matrix: that of every problem of the batch */
    bool bias;
    enum gemm_act act;
    char a[GEMM_TENSOR_NAME_MAX + 1], b[GEMM_TENSOR_NAME_MAX + 1]; /* resident operands, or "" */
    char store[GEMM_TENSOR_NAME_MAX + 1];
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    enum gemm_verify verify;
    uint64_t timeout_ms; /* 0: the server's */
    uint32_t priority;
    uint32_t given;      /* bit set of the parameters that were given; see gemm_request.c */
    const char *a_title; /* borrowed: what errors call A; "A" by default */
    uint32_t
        elsewhere; /* GEMM_OPERAND_... that a raw body leaves out, though they are not resident */
};

/* The operands, as views onto the body. `bias` and `c0` have rank 0 if not used.
 * All are row-major after binding, but for `fortran` tensors that cannot be expressed by
 * transposing (batches, c0): those keep their flag and the caller copies them with
 * tensor_copy_row_major before use. `transa`, `transb` already include the flip that a
 * column-major matrix means; use these, not the request's. */
struct gemm_operands {
    union {
        struct {
            struct tensor a, b, bias, c0;
        };
        struct tensor all[GEMM_OPERANDS]; /* the same */
    };
    bool transa, transb;
};

/* A request's operands, as operands.h describes them; of a struct gemm_request. */
extern const struct operand_table gemm_operand_table;

/* Its parameters, as parameter.h describes them. */
extern const struct parameter_table gemm_parameter_table;

void gemm_request_init(struct gemm_request *request);

/* Takes one name=value pair, already percent-decoded. Unknown and repeated names and bad values are
 * GEMMD_ERR_MALFORMED with the name in `field`. */
enum gemmd_error gemm_request_set(struct gemm_request *request, const char *name, const char *value,
                                  struct fault *fault);

/* Once all parameters are in: fills in defaults and refuses what contradicts itself (400)
 * or is not in API.md's type table (422). For raw bodies m, n, k must be given. */
enum gemmd_error gemm_request_check(struct gemm_request *request, enum format format,
                                    struct fault *fault);

/* Before gemm_request_check: what the resident operands are (NULL: not resident). Takes dtype, m,
 * n, k and batch from their shapes and checks that all agree, with the parameters too. The rest of
 * the request then goes on as if all these had been given; but where B is one matrix, the batch is
 * A's. */
enum gemmd_error gemm_request_settle_residents(struct gemm_request *request, const struct tensor *a,
                                               const struct tensor *b, struct fault *fault);

/* What a raw body would have to hold if nothing were elsewhere, without data (rank 0: not there).
 * False on overflow. */
bool gemm_request_operands(const struct gemm_request *request, struct gemm_operands *operands);
/* Where a raw body holds them. False on overflow. */
bool gemm_request_layout(const struct gemm_request *request, struct operand_layout *layout);
/* Exact length in bytes of a raw body (operands that are resident or elsewhere count as 0). False
 * on overflow. */
bool gemm_request_raw_bytes(const struct gemm_request *request, uint64_t *out);
/* 400 with both lengths if a raw body of `bytes` is not as long as the operands; 413 on overflow.
 */
enum gemmd_error gemm_request_check_raw_bytes(const struct gemm_request *request, uint64_t bytes,
                                              struct fault *fault);
/* Length in bytes of the result. False on overflow. m and n must be known. */
bool gemm_request_result_bytes(const struct gemm_request *request, uint64_t *out);
/* The result as a tensor of 2 dimensions (3 if batch > 1) over `data`. */
bool gemm_request_result(const struct gemm_request *request, const void *data,
                         struct tensor *tensor);

/* Finds the operands in a complete body of the given format (those that are elsewhere have no data
 * then), derives dtype, m, n, k, batch (and
 * `bias`, for safetensors) from them where the body says so, and checks that all agree. 400 if the
 * body is too short, too long or contradicts the parameters. */
enum gemmd_error gemm_request_bind(struct gemm_request *request, enum format format,
                                   const void *body, uint64_t bytes, struct gemm_operands *operands,
                                   struct fault *fault);

/* As gemm_request_bind, of a body that may still be on its way: as soon as it says where A and B
 * lie, and C0 if there is one. A bias may have no data then. Whether the rest of the body is what
 * it has to be is not known before it is there. */
enum gemmd_error gemm_request_bind_front(struct gemm_request *request, enum format format,
                                         struct body_front *front, struct gemm_operands *operands,
                                         struct fault *fault);

/* As gemm_request_bind, for arrays that were found in places of their own: takes the tensors
 * that are set in `operands` (rank 0: not there) and checks that all agree. The request's
 * `bias` becomes whether there is one. */
enum gemmd_error gemm_request_bind_tensors(struct gemm_request *request,
                                           struct gemm_operands *operands, struct fault *fault);

const char *gemm_act_name(enum gemm_act act);

/* Whether the parameter of that name was given, or what it says is known as if it had been. */
bool gemm_request_given(const struct gemm_request *request, const char *name);
void gemm_request_mark_given(struct gemm_request *request, const char *name);
/* The first of m, n and k that is not known yet; NULL if all are. */
const char *gemm_request_missing_dim(const struct gemm_request *request);
/* Fills in `out` if it was not given and holds the types against what is offered (422).
 * gemm_request_check does it once dtype is known; gemm_request_bind if the operands say it. */
enum gemmd_error gemm_request_settle_types(struct gemm_request *request, struct fault *fault);

#endif
