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

/* The parameters of the request. */
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
    uint64_t timeout_ms; /* 0: the daemon's default */
    uint32_t priority;
    uint32_t given;      /* bit set of the parameters that were given; see gemm_request.c */
    const char *a_title; /* borrowed: the name of A in errors; "A" by default */
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
        struct tensor all[GEMM_OPERANDS]; /* the same tensors, by index */
    };
    bool transa, transb;
};

/* The table of the operands (operands.h). The table's request is a struct gemm_request. */
extern const struct operand_table gemm_operand_table;

/* The table of the parameters (parameter.h). */
extern const struct parameter_table gemm_parameter_table;

void gemm_request_init(struct gemm_request *request);

/* Takes one name=value pair, already percent-decoded. Unknown and repeated names and bad values are
 * GEMMD_ERR_MALFORMED with the name in `field`. */
enum gemmd_error gemm_request_set(struct gemm_request *request, const char *name, const char *value,
                                  struct fault *fault);

/* To be called once all parameters are set: fills in defaults, and checks that the parameters agree
 * (GEMMD_ERR_MALFORMED) and that the types are offered (GEMMD_ERR_UNSUPPORTED). A raw body needs m,
 * n and k. */
enum gemmd_error gemm_request_check(struct gemm_request *request, enum format format,
                                    struct fault *fault);

/* Before gemm_request_check: what the resident operands are (NULL: not resident). Takes dtype, m,
 * n, k and batch from their shapes and checks that all agree, with the parameters too. The rest of
 * the request then goes on as if all these had been given; but where B is one matrix, the batch is
 * A's. */
enum gemmd_error gemm_request_settle_residents(struct gemm_request *request, const struct tensor *a,
                                               const struct tensor *b, struct fault *fault);

/* Fills in the types and shapes of the operands of a raw body, as if the body held all operands
 * that are not resident. No operand has data; an absent operand has rank 0. False on overflow. */
bool gemm_request_operands(const struct gemm_request *request, struct gemm_operands *operands);
/* Computes where a raw body holds the operands. False on overflow. */
bool gemm_request_layout(const struct gemm_request *request, struct operand_layout *layout);
/* Sets `*out` to the exact length of a raw body in bytes, in which operands that are resident or
 * elsewhere count as 0. False on overflow. */
bool gemm_request_raw_bytes(const struct gemm_request *request, uint64_t *out);
/* Checks the length of a raw body. GEMMD_ERR_MALFORMED, with both lengths, if the body of `bytes`
 * bytes is not as long as its operands; GEMMD_ERR_TOO_LARGE on overflow. */
enum gemmd_error gemm_request_check_raw_bytes(const struct gemm_request *request, uint64_t bytes,
                                              struct fault *fault);
/* Sets `*out` to the length of the result in bytes. m and n must be known. False on overflow. */
bool gemm_request_result_bytes(const struct gemm_request *request, uint64_t *out);
/* Makes `tensor` a view of the result at `data`, with 2 dimensions (3 if batch > 1). */
bool gemm_request_result(const struct gemm_request *request, const void *data,
                         struct tensor *tensor);

/* Finds the operands in a complete body of the given format in which operands that
 * are elsewhere have no data. If the body has types and shapes, derives dtype, m, n, k and batch
 * (and `bias`, for safetensors) from the operands, and checks that all agree. GEMMD_ERR_MALFORMED
 * if the body is too short, too long or contradicts the parameters. */
enum gemmd_error gemm_request_bind(struct gemm_request *request, enum format format,
                                   const void *body, uint64_t bytes, struct gemm_operands *operands,
                                   struct fault *fault);

/* As gemm_request_bind, for a body of which only the front has been received. The front has to tell
 * where A and B lie, and C0 if the request has one: GEMMD_ERR_CONFLICT if more bytes are needed. A
 * bias may have no data yet. The rest of the body is not checked. */
enum gemmd_error gemm_request_bind_front(struct gemm_request *request, enum format format,
                                         struct body_front *front, struct gemm_operands *operands,
                                         struct fault *fault);

/* As gemm_request_bind, for arrays that are not in one body: takes the tensors
 * that are set in `operands` (rank 0: absent) and checks that all agree. The request's
 * `bias` becomes whether there is one. */
enum gemmd_error gemm_request_bind_tensors(struct gemm_request *request,
                                           struct gemm_operands *operands, struct fault *fault);

const char *gemm_act_name(enum gemm_act act);

/* Returns whether the parameter of that name was given, or has been marked as given. */
bool gemm_request_given(const struct gemm_request *request, const char *name);
void gemm_request_mark_given(struct gemm_request *request, const char *name);
/* Returns the name of the first of m, n and k that is not known yet; NULL if all are known. */
const char *gemm_request_missing_dim(const struct gemm_request *request);
/* Fills in `out` if it was not given, and checks that the types are offered. GEMMD_ERR_UNSUPPORTED
 * if not. Called by gemm_request_check if dtype is known, else by gemm_request_bind. */
enum gemmd_error gemm_request_settle_types(struct gemm_request *request, struct fault *fault);

#endif
