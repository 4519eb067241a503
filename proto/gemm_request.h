/*
 * gemm_request.h - the parameters of POST /gemm, and the operands in the request's body. The
 * product is C = act(alpha*op(A)*op(B) + beta*C0 + bias).
 *
 * A caller calls gemm_request_init, then gemm_request_set for each parameter, then
 * gemm_request_settle_residents if operands are resident, then gemm_request_check when all
 * parameters are set, then gemm_request_bind when the body has been received. No function does I/O.
 * Only the reader of a safetensors header allocates memory, which the reader frees before
 * returning. Different requests may be used by different threads; one request is used by one thread
 * at a time.
 *
 * op(A) is [m, k], op(B) is [k, n], C and C0 are [m, n] and bias is [n], where op(X) is X or, if
 * `transa` or `transb` says so, X transposed. With a batch of more than 1, A, B, C0, C and scales
 * have the batch as a leading dimension, while all problems share the bias. A and B have the type
 * `dtype`; bias, C0 and C have the type `out`.
 *
 * Scales are f32. With `rowcol`, a_scale is [m] and b_scale [n]. With `block` they lie as the
 * operands do: a_scale is [m, K] or, if transa, [K, m], and b_scale is [K, N] or, if transb, [N,
 * K], where K and N are k and n divided by GEMM_SCALE_BLOCK and rounded up.
 */
#ifndef PROTO_GEMM_REQUEST_H
#define PROTO_GEMM_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/gemm_scales.h"
#include "proto/operands.h"
#include "proto/parameter.h"
#include "proto/safetensors.h"
#include "proto/tensor.h"

enum gemm_precision { GEMM_PRECISION_FULL, GEMM_PRECISION_TF32, GEMM_PRECISION_F8 };
enum gemm_verify { GEMM_VERIFY_NONE, GEMM_VERIFY_FREIVALDS };

/* GEMM_ACT_MAP(X) expands to X(NAME, name) for each activation, GEMM_ACT_FUNCTION_MAP(X) for each
 * but the first, which changes nothing. The activation's constant is GEMM_ACT_NAME, and its name in
 * the parameter `act` is `name`. CONTRIBUTING.md lists what else an activation needs. */
#define GEMM_ACT_FUNCTION_MAP(X)                                                                   \
    X(RELU, "relu")                                                                                \
    X(GELU, "gelu")                                                                                \
    X(GELU_TANH, "gelu_tanh")                                                                      \
    X(SILU, "silu")
#define GEMM_ACT_MAP(X)                                                                            \
    X(NONE, "none")                                                                                \
    GEMM_ACT_FUNCTION_MAP(X)

enum gemm_act {
#define X(NAME, name) GEMM_ACT_##NAME,
    GEMM_ACT_MAP(X)
#undef X
};
#define X(NAME, name) +1
enum { GEMM_ACT_COUNT = GEMM_ACT_MAP(X) };
#undef X

/* Whether an activation is computed without a rounding error. Results of i32 are offered with these
 * activations only. */
static inline bool gemm_act_is_exact(enum gemm_act act)
{
    return act == GEMM_ACT_NONE || act == GEMM_ACT_RELU;
}

enum {
    GEMM_DIM_MAX = 2147483647,  /* m, n, k and batch: 1 ... 2^31-1 */
    GEMM_KERNEL_NAME_MAX = 32,  /* bytes, without the terminator */
    GEMM_TENSOR_NAME_MAX = 128, /* bytes, without the terminator */
    GEMM_PRIORITY_MAX = 9,
    GEMM_PRIORITY_DEFAULT = 4
};

/* The operands, in the order in which a raw body holds the operands. GEMM_OPERAND_... are the bits
 * of the operands in bit sets. */
enum { GEMM_OPERANDS = 6 };
enum {
    GEMM_OPERAND_A = 1,
    GEMM_OPERAND_B = 2,
    GEMM_OPERAND_BIAS = 4,
    GEMM_OPERAND_C0 = 8,
    GEMM_OPERAND_A_SCALE = 16,
    GEMM_OPERAND_B_SCALE = 32
};

/* The parameters of the request. */
struct gemm_request {
    uint64_t m, n, k; /* 0: neither given nor derived from the operands' shapes yet */
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_scales scales;
    bool transa, transb;
    /* transa and transb as they were given, which the layout of scales of blocks follows even where
     * a column-major operand inverts transa or transb. Set by gemm_request_check. */
    bool scale_transa, scale_transb;
    /* GEMM_OPERAND_..._SCALE bits of the scales that resident operands bring with them. */
    uint32_t resident_scales;
    double alpha, beta;
    uint64_t batch;
    bool one_b;    /* B is resident and one matrix, which all problems of the batch use */
    bool packed_b; /* B is resident and packed weights (packed.h); one_b is true then */
    bool bias;
    enum gemm_act act;
    /* Names of the resident operands, or "". */
    char a[GEMM_TENSOR_NAME_MAX + 1], b[GEMM_TENSOR_NAME_MAX + 1];
    char store[GEMM_TENSOR_NAME_MAX + 1];  /* name under which the result becomes resident, or "" */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    enum gemm_verify verify;
    uint64_t timeout_ms; /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given;      /* bit set of the parameters that were given; see gemm_request.c */
    const char *a_title; /* borrowed: the name of A in errors; "A" by default */
    /* GEMM_OPERAND_... bits of the operands that a raw body leaves out, except resident ones. */
    uint32_t elsewhere;
};

/* The operands of a request, as views onto the body, which the caller owns. An absent operand has
 * rank 0. Binding replaces a single column-major matrix A or B by a row-major view of the
 * transposed matrix, and inverts `transa` or `transb`; `transa` and `transb` therefore replace the
 * fields of the same names in the request. A column-major batch, C0 or scale keeps `fortran`, and
 * the caller has to copy the operand with tensor_copy_row_major before use. */
struct gemm_operands {
    union {
        struct {
            struct tensor a, b, bias, c0, a_scale, b_scale;
        };
        struct tensor all[GEMM_OPERANDS]; /* the same tensors, by index */
    };
    bool transa, transb;
};

/* The table of the operands (operands.h). The table's request is a struct gemm_request. */
extern const struct operand_table gemm_operand_table;

/* The values of the parameter `act`. */
extern const struct parameter_values gemm_act_values;

/* The table of the parameters (parameter.h). */
extern const struct parameter_table gemm_parameter_table;

/* Sets every parameter to the default. */
void gemm_request_init(struct gemm_request *request);

/* Parses and stores one name=value pair, already percent-decoded. GEMMD_ERR_MALFORMED, with the
 * name in fault->field, if the name is unknown or repeated, or the value is invalid. */
enum gemmd_error gemm_request_set(struct gemm_request *request, const char *name, const char *value,
                                  struct fault *fault);

/* Checks the parameters, when all are set, and fills in the default of `out` if the body is raw or
 * dtype was given. GEMMD_ERR_MALFORMED if the body is raw and m, n or k is not known.
 * GEMMD_ERR_UNSUPPORTED if gemmd does not offer the combination of the parameters. */
enum gemmd_error gemm_request_check(struct gemm_request *request, enum format format,
                                    struct fault *fault);

/* Derives dtype, m, n, k and batch from the resident operands, before gemm_request_check. `a` and
 * `b` are the resident tensors; NULL if the operand is not resident. dtype and, if known, batch
 * then count as given. A resident B of rank 2 is one matrix that all problems of the batch use, and
 * does not determine the batch. GEMMD_ERR_MALFORMED if the tensors contradict each other or the
 * parameters; GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types. */
enum gemmd_error gemm_request_settle_residents(struct gemm_request *request, const struct tensor *a,
                                               const struct tensor *b, struct fault *fault);

/* Derives k and n from a resident B of packed weights, with GEMM_DIM_MAX at most, before
 * gemm_request_check; a resident A goes to gemm_request_settle_residents before. The errors are
 * those of gemm_request_settle_residents. */
enum gemmd_error gemm_request_settle_packed(struct gemm_request *request, uint64_t k, uint64_t n,
                                            struct fault *fault);

/* Checks the scales that resident operands bring with them, after gemm_request_settle_residents.
 * `a_scale` and `b_scale` are NULL if the operand is not resident or has none; then the body has to
 * hold the scales. GEMMD_ERR_MALFORMED if there are scales and the request asks for none, or for
 * scales of another shape. */
enum gemmd_error gemm_request_settle_resident_scales(struct gemm_request *request,
                                                     const struct tensor *a_scale,
                                                     const struct tensor *b_scale,
                                                     struct fault *fault);
/* Fills in the types and shapes of the operands of a raw body, as if the body held all operands
 * that are not resident. No operand has data; an absent operand has rank 0. False on overflow. */
bool gemm_request_operands(const struct gemm_request *request, struct gemm_operands *operands);
/* Computes where a raw body holds the operands. False on overflow. */
bool gemm_request_layout(const struct gemm_request *request, struct operand_layout *layout);
/* Sets `*out` to the exact length of a raw body in bytes. The body does not hold the operands that
 * are resident or in request->elsewhere. False on overflow. */
bool gemm_request_raw_bytes(const struct gemm_request *request, uint64_t *out);
/* Checks the length of a raw body. GEMMD_ERR_MALFORMED, with both lengths in the message, if
 * `bytes` is not the sum of the lengths of the body's operands; GEMMD_ERR_TOO_LARGE if the sum
 * overflows. */
enum gemmd_error gemm_request_check_raw_bytes(const struct gemm_request *request, uint64_t bytes,
                                              struct fault *fault);
/* Sets `*out` to the length of the result in bytes. m and n must be known. False on overflow. */
bool gemm_request_result_bytes(const struct gemm_request *request, uint64_t *out);
/* Makes `tensor` a view onto the result at `data`, which stays the caller's. The view is [m, n], or
 * [batch, m, n] if batch > 1. False on overflow. */
bool gemm_request_result(const struct gemm_request *request, const void *data,
                         struct tensor *tensor);

/* Finds the operands in a complete body of `bytes` bytes, and sets `operands` to views onto the
 * body. In a raw body, an operand in request->elsewhere has a shape but no data. A .npy or
 * safetensors body has types and shapes, from which the function derives dtype, m, n, k and batch,
 * and, for safetensors, the parameter `bias`. GEMMD_ERR_MALFORMED if the body is too short, is too
 * long or contradicts the parameters. GEMMD_ERR_UNSUPPORTED if gemmd does not offer the types.
 * GEMMD_ERR_TOO_LARGE if the size of a raw operand overflows. GEMMD_ERR_OUT_OF_MEMORY if a
 * safetensors header cannot be parsed for lack of memory. */
enum gemmd_error gemm_request_bind(struct gemm_request *request, enum format format,
                                   const void *body, uint64_t bytes, struct gemm_operands *operands,
                                   struct fault *fault);

/* As gemm_request_bind, for a body of which only the front has been received (body_front.h). The
 * front must hold the headers that give the locations of A, B and, if the request has a C0, of C0.
 * GEMMD_ERR_CONFLICT if the front is too short; front->wanted is then the number of bytes that the
 * next call needs. If the .npy header of a bias at the end of the body has not been received, the
 * bias has a type and a shape but no data, and the end of the body is not checked. */
enum gemmd_error gemm_request_bind_front(struct gemm_request *request, enum format format,
                                         struct body_front *front, struct gemm_operands *operands,
                                         struct fault *fault);

/* As gemm_request_bind, for tensors that the caller has already found. The caller sets the tensors
 * in `operands`, with rank 0 for an absent operand; the function sets `transa` and `transb` of
 * `operands`, and sets request->bias to whether `operands` has a bias. GEMMD_ERR_MALFORMED if A or
 * B is neither in `operands` nor resident, or the tensors contradict the parameters. */
enum gemmd_error gemm_request_bind_tensors(struct gemm_request *request,
                                           struct gemm_operands *operands, struct fault *fault);

/* Returns the value of the parameter `act` for the activation, such as "relu"; a static string. */
const char *gemm_act_name(enum gemm_act act);

/* Returns whether the parameter of that name was given, or has been marked as given. */
bool gemm_request_given(const struct gemm_request *request, const char *name);
void gemm_request_mark_given(struct gemm_request *request, const char *name);
/* Returns the name of the first of m, n and k that is not known yet; NULL if all are known. */
const char *gemm_request_missing_dim(const struct gemm_request *request);
/* Sets request->out to the default for dtype, unless `out` was given. GEMMD_ERR_UNSUPPORTED if
 * gemmd does not offer the combination of dtype, out, precision, act, alpha and beta.
 * gemm_request_check calls the function if the body is raw or dtype was given, and
 * gemm_request_bind calls the function if the arrays of the body give dtype. */
enum gemmd_error gemm_request_settle_types(struct gemm_request *request, struct fault *fault);

#endif
