/*
 * attention_request.h - the parameters of POST /attention, and the operands in the request's body.
 * The attention is O = softmax(scale*Q*K^T + mask)*V.
 *
 * A caller calls attention_request_init, then attention_request_set for each parameter, then
 * attention_request_settle_residents if K or V is resident, then
 * attention_request_settle_sequence, then attention_request_check when all
 * parameters are set, then attention_request_bind when the body has been received. No function does
 * I/O. Only the reader of a safetensors header allocates memory, which the reader frees before
 * returning. Different requests may be used by different threads; one request is used by one thread
 * at a time.
 *
 * In the layout bhsd, Q is [batch, heads, sq, d], K is [batch, kv_heads, skv, d], V is [batch,
 * kv_heads, skv, dv] and O is [batch, heads, sq, dv]. In the layout bshd, the sequence precedes the
 * heads. Q, K and V have the type `dtype`. The mask is [mask_batch, mask_heads, mask_sq, skv] in
 * both layouts, and has the type `dtype` or i8. The slopes of ALiBi and the sinks are f32 [heads].
 *
 * If the entries are ragged, the rows of all entries follow one another: Q, K, V and O have the
 * shapes above with a first dimension of 1, sq and skv are the rows of all entries, and `batch` is
 * the number of entries.
 */
#ifndef PROTO_ATTENTION_REQUEST_H
#define PROTO_ATTENTION_REQUEST_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/body_front.h"
#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/tensor.h"

/* The order of a tensor's dimensions: heads before or after the sequence. */
enum attention_layout { ATTENTION_BHSD, ATTENTION_BSHD };

/* The operands lens_q and lens_kv: none; the lengths of each entry, i32 [batch]; or, for ragged
 * entries, the first row of each entry and the number of all rows, i32 [batch + 1]. */
enum attention_lens { ATTENTION_LENS_NONE, ATTENTION_LENS_PADDED, ATTENTION_LENS_RAGGED };

/* The operand `mask`: none, numbers that are added to the scores, or bytes that are 0 for hidden
 * keys. */
enum attention_mask { ATTENTION_MASK_NONE, ATTENTION_MASK_ADD, ATTENTION_MASK_BOOL };

enum { ATTENTION_WIDTH_MAX = 256 }; /* the largest d and dv */
enum { ATTENTION_OPERANDS = 8 };

/* The parameters of the request. */
struct attention_request {
    uint64_t batch, heads, kv_heads, sq, skv, d, dv; /* 0: not known yet */
    enum attention_layout layout;
    enum gemmd_dtype dtype;
    bool causal;
    uint64_t window;       /* valid if the parameter was given */
    uint64_t window_right; /* valid if the parameter was given */
    uint64_t offset;       /* valid if the parameter was given */
    double scale;          /* valid if the parameter was given */
    double softcap;        /* 0: none */
    enum attention_lens lens;
    bool alibi; /* the request has the operand slopes */
    bool sinks; /* the request has the operand sinks */
    enum attention_mask mask;
    uint64_t mask_batch, mask_heads, mask_sq; /* 0: not known yet */
    /* Names of the resident operands, or "". */
    char k[GEMM_TENSOR_NAME_MAX + 1], v[GEMM_TENSOR_NAME_MAX + 1];
    /* The sequence whose positions are K and V, or "". If `append` is true, the body has the keys
     * and values of the sq positions from `position` on, which are appended first; else K and V are
     * the first skv positions. */
    char sequence[GEMM_TENSOR_NAME_MAX + 1];
    bool append;
    uint64_t position, layer;
    bool lse;                              /* the answer is to hold lse too */
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* time until the deadline; 0: the daemon's default */
    uint32_t priority;
    uint32_t given; /* bit set of the parameters that were given; see attention_request.c */
    /* Bit set of the operands that are not resident and that a raw body leaves out. Operand i of
     * attention_operand_table is bit 1 << i. */
    uint32_t elsewhere;
    /* Rank of O, which is the rank of the client's Q, 2 to 4: Q, K and V may omit leading
     * dimensions of size 1. */
    uint32_t rank;
};

/* The operands of a request, as views onto the body, which the caller owns. An absent operand has
 * rank 0. If an operand is `fortran`, the caller has to copy the operand with tensor_copy_row_major
 * before use. */
struct attention_operands {
    union {
        struct {
            struct tensor lens_q, lens_kv;
            struct tensor slopes, sinks;
            struct tensor q, k, v;
            struct tensor mask;
        };
        struct tensor all[ATTENTION_OPERANDS]; /* the same tensors, by index */
    };
};

/* The table of the operands (operands.h). The table's request is a struct attention_request. */
extern const struct operand_table attention_operand_table;

/* The table of the parameters (parameter.h). */
extern const struct parameter_table attention_parameter_table;

/* Sets every parameter to the default. */
void attention_request_init(struct attention_request *request);

/* Parses and stores one name=value pair, already percent-decoded. GEMMD_ERR_MALFORMED, with the
 * name in fault->field, if the name is unknown or repeated, or the value is invalid. */
enum gemmd_error attention_request_set(struct attention_request *request, const char *name,
                                       const char *value, struct fault *fault);

/* Derives dtype, batch, kv_heads, skv, d and dv from the resident operands, before
 * attention_request_check. `k` and `v` are the resident tensors; NULL if the operand is not
 * resident. dtype then counts as given. GEMMD_ERR_MALFORMED if the tensors contradict each other or
 * the parameters; GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type. */
enum gemmd_error attention_request_settle_residents(struct attention_request *request,
                                                    const struct tensor *k, const struct tensor *v,
                                                    struct fault *fault);

/* The shape of a sequence, and the lengths of its layers. */
struct attention_sequence {
    enum gemmd_dtype dtype;
    uint64_t kv_heads, d, dv, layers;
    const uint64_t *lengths; /* [layers] */
};
/* Derives dtype, batch, kv_heads, d and dv from the sequence, and skv unless the request appends,
 * before attention_request_check. `sequence` is NULL if the request names none. dtype then counts
 * as given. GEMMD_ERR_MALFORMED if the parameters contradict the sequence or each other;
 * GEMMD_ERR_PRECONDITION if the layer is empty or shorter than skv. */
enum gemmd_error attention_request_settle_sequence(struct attention_request *request,
                                                   const struct attention_sequence *sequence,
                                                   struct fault *fault);

/* Checks the parameters of a request with a raw body, when all parameters are set, and fills in the
 * defaults of the sizes. Does nothing for the other formats, whose arrays give the sizes.
 * GEMMD_ERR_MALFORMED if heads, sq or d is not known, or heads is not a multiple of kv_heads;
 * GEMMD_ERR_UNSUPPORTED if d or dv is greater than ATTENTION_WIDTH_MAX. */
enum gemmd_error attention_request_check(struct attention_request *request, enum format format,
                                         struct fault *fault);

/* Fills in the types and shapes of the operands of a raw body, as if the body held all operands
 * that are not resident. No operand has data; an absent operand has rank 0. False on overflow. */
bool attention_request_operands(const struct attention_request *request,
                                struct attention_operands *operands);
/* Computes where a raw body holds the operands. False on overflow. */
bool attention_request_layout(const struct attention_request *request,
                              struct operand_layout *layout);
/* Sets `*out` to the exact length of a raw body in bytes. The body does not hold the operands that
 * are resident or in request->elsewhere. False on overflow. */
bool attention_request_raw_bytes(const struct attention_request *request, uint64_t *out);
/* Checks the length of a raw body. GEMMD_ERR_MALFORMED, with both lengths in the message, if
 * `bytes` is not the sum of the lengths of the body's operands; GEMMD_ERR_TOO_LARGE if the sum
 * overflows. */
enum gemmd_error attention_request_check_raw_bytes(const struct attention_request *request,
                                                   uint64_t bytes, struct fault *fault);

/* Finds the operands in a complete body of `bytes` bytes, and sets `operands` to views onto the
 * body. In a raw body, an operand in request->elsewhere has a shape but no data. A .npy or
 * safetensors body has types and shapes, from which the function derives dtype and the sizes, and,
 * for safetensors, the parameters `lens` (but never ATTENTION_LENS_RAGGED), `alibi`, `sinks` and
 * `mask`, where these are not given. GEMMD_ERR_MALFORMED if the body is too short, is too long or
 * contradicts the parameters, or lens_q or lens_kv has a value that attention_request_check_lens
 * refuses.
 * GEMMD_ERR_UNSUPPORTED if gemmd does not offer the type or the head size. GEMMD_ERR_TOO_LARGE if
 * the size of a raw operand overflows. GEMMD_ERR_OUT_OF_MEMORY if a safetensors header cannot be
 * parsed for lack of memory. */
enum gemmd_error attention_request_bind(struct attention_request *request, enum format format,
                                        const void *body, uint64_t bytes,
                                        struct attention_operands *operands, struct fault *fault);

/* As attention_request_bind, for a body of which only the front has been received (body_front.h).
 * The front must hold the headers that give the locations of all operands. GEMMD_ERR_CONFLICT if
 * the front is too short; front->wanted is then the number of bytes that the next call needs. The
 * values in lens_q and lens_kv are not checked. */
enum gemmd_error attention_request_bind_front(struct attention_request *request, enum format format,
                                              struct body_front *front,
                                              struct attention_operands *operands,
                                              struct fault *fault);

/* As attention_request_bind, for tensors that the caller has already found. The caller sets the
 * tensors in `operands`, with rank 0 for an absent operand. The function derives `lens`, `alibi`,
 * `sinks` and `mask` as attention_request_bind does for safetensors. The values in lens_q and
 * lens_kv are not checked. */
enum gemmd_error attention_request_bind_tensors(struct attention_request *request,
                                                struct attention_operands *operands,
                                                struct fault *fault);

/* Checks the values in lens_q and lens_kv, whose data must have been received. GEMMD_ERR_MALFORMED
 * if a value in lens_q is not from 0 to sq, or a value in lens_kv is not from 0 to skv; or, for
 * ragged entries, if the values do not ascend from 0 to sq and to skv. */
enum gemmd_error attention_request_check_lens(const struct attention_request *request,
                                              const struct attention_operands *operands,
                                              struct fault *fault);

/* The first dimension of Q, K, V, O and lse: the number of entries, or 1 if the entries are ragged.
 */
static inline uint64_t attention_request_entries_apart(const struct attention_request *request)
{
    return request->lens == ATTENTION_LENS_RAGGED ? 1 : request->batch;
}

/* Sets `o` to the type and shape of O in the request's layout, and `lse` to f32 and [batch, heads,
 * sq], or [1, heads, sq] if the entries are ragged, both without data. All sizes must be known. O
 * has the rank request->rank, and lse one dimension less: leading dimensions are omitted. False on
 * overflow. */
bool attention_request_result(const struct attention_request *request, struct tensor *o,
                              struct tensor *lse);

/* Sets `tensor` to the request's dtype and the shape [batch, heads, length, width], or [1, heads,
 * length, width] if the entries are ragged, permuted for the request's layout, without data. False
 * on overflow. */
bool attention_request_tensor(const struct attention_request *request, uint64_t heads,
                              uint64_t length, uint64_t width, struct tensor *tensor);

/* Returns whether the parameter of that name was given, or has been marked as given. */
bool attention_request_given(const struct attention_request *request, const char *name);
void attention_request_mark_given(struct attention_request *request, const char *name);
/* Fills in the defaults of the sizes that are not known: batch is 1, kv_heads is heads, skv is sq,
 * dv is d, and the mask has one batch entry and one head with sq queries. heads, sq and d must be
 * known. GEMMD_ERR_MALFORMED if heads is not a multiple of kv_heads, or a size of the mask is
 * neither 1 nor that of the attention; GEMMD_ERR_UNSUPPORTED if d or dv is greater than
 * ATTENTION_WIDTH_MAX.
 * attention_request_check calls the function for a raw body, and attention_request_bind calls the
 * function for the other formats. */
enum gemmd_error attention_request_settle_sizes(struct attention_request *request,
                                                struct fault *fault);

#endif
