/*
 * attention_request.h - what POST /attention asks for: O = softmax(scale*Q*K^T + mask)*V.
 *
 * The way of a request is that of gemm_request.h: attention_request_init, attention_request_set for
 * each parameter, attention_request_settle_residents if K or V is resident,
 * attention_request_check once all are in, then attention_request_bind when the body is there.
 * Nothing here does I/O, and nothing allocates but the reading of a safetensors header; a request
 * is used by one thread at a time.
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

enum { ATTENTION_WIDTH_MAX = 256 }; /* of d and dv */
enum { ATTENTION_OPERANDS = 5 };

/* The parameters of the request. */
struct attention_request {
    uint64_t batch, heads, kv_heads, sq, skv, d, dv; /* 0 until given or derived */
    enum attention_layout layout;
    enum gemmd_dtype dtype;
    bool causal;
    uint64_t window; /* if given */
    double scale;    /* if given */
    double softcap;  /* 0: none */
    bool lens;
    char k[GEMM_TENSOR_NAME_MAX + 1], v[GEMM_TENSOR_NAME_MAX + 1]; /* resident, or "" */
    bool lse;
    char kernel[GEMM_KERNEL_NAME_MAX + 1]; /* "auto" by default */
    uint64_t timeout_ms;                   /* 0: the daemon's default */
    uint32_t priority;
    uint32_t given;     /* bit set of the parameters that were given; see attention_request.c */
    uint32_t elsewhere; /* bit set, in a raw body's order, of the operands that it leaves out though
                           they are not resident */
    uint32_t rank; /* of O: that of Q as it came, 2 ... 4; leading dimensions of 1 can be left out
                    */
};

/* The operands, as views onto the body; those that are not in it have rank 0. Tensors that are
 * `fortran` have to be copied with tensor_copy_row_major before use. */
struct attention_operands {
    union {
        struct {
            struct tensor lens_q, lens_kv; /* i32, [batch] */
            struct tensor q, k, v;
        };
        struct tensor all[ATTENTION_OPERANDS]; /* the same tensors, by index */
    };
};

/* The table of the operands (operands.h). The table's request is a struct attention_request. */
extern const struct operand_table attention_operand_table;

/* The table of the parameters (parameter.h). */
extern const struct parameter_table attention_parameter_table;

void attention_request_init(struct attention_request *request);

/* As gemm_request_set. */
enum gemmd_error attention_request_set(struct attention_request *request, const char *name,
                                       const char *value, struct fault *fault);

/* Before attention_request_check: what the resident K and V are (NULL: not resident). Takes dtype
 * and sizes from their shapes; the rest of the request goes on as if these had been given. */
enum gemmd_error attention_request_settle_residents(struct attention_request *request,
                                                    const struct tensor *k, const struct tensor *v,
                                                    struct fault *fault);

/* To be called once all parameters are set. For a raw body, whose heads, sq and d must be known,
 * fills in the defaults of all sizes. GEMMD_ERR_MALFORMED if the parameters contradict each other,
 * GEMMD_ERR_UNSUPPORTED if the type is not offered. */
enum gemmd_error attention_request_check(struct attention_request *request, enum format format,
                                         struct fault *fault);

/* Fills in the types and shapes of the operands of a raw body, as if the body held all operands
 * that are not resident. No operand has data; an absent operand has rank 0. False on overflow. */
bool attention_request_operands(const struct attention_request *request,
                                struct attention_operands *operands);
/* Computes where a raw body holds the operands. False on overflow. */
bool attention_request_layout(const struct attention_request *request,
                              struct operand_layout *layout);
/* Sets `*out` to the exact length of a raw body in bytes, in which operands that are resident or
 * elsewhere count as 0. False on overflow. */
bool attention_request_raw_bytes(const struct attention_request *request, uint64_t *out);
/* Checks the length of a raw body. GEMMD_ERR_MALFORMED, with both lengths, if the body of `bytes`
 * bytes is not as long as its operands; GEMMD_ERR_TOO_LARGE on overflow. */
enum gemmd_error attention_request_check_raw_bytes(const struct attention_request *request,
                                                   uint64_t bytes, struct fault *fault);

/* Finds the operands in a complete body in which operands that are elsewhere have no
 * data. If the body has types and shapes, derives dtype and sizes from the operands. Checks that
 * all agree, the values of the lengths too: GEMMD_ERR_MALFORMED if not. */
enum gemmd_error attention_request_bind(struct attention_request *request, enum format format,
                                        const void *body, uint64_t bytes,
                                        struct attention_operands *operands, struct fault *fault);

/* As attention_request_bind, for a body of which only the front has been received. The front has to
 * tell where all operands lie: GEMMD_ERR_CONFLICT if more bytes are needed. The values of the
 * lengths are not checked. */
enum gemmd_error attention_request_bind_front(struct attention_request *request, enum format format,
                                              struct body_front *front,
                                              struct attention_operands *operands,
                                              struct fault *fault);

/* As attention_request_bind, for arrays that are not in one body: takes the tensors
 * that are set in `operands` (rank 0: absent). The request's `lens` becomes whether there are
 * lengths, whose values are not looked at. */
enum gemmd_error attention_request_bind_tensors(struct attention_request *request,
                                                struct attention_operands *operands,
                                                struct fault *fault);

/* Checks the values of the lengths, once they have been received. GEMMD_ERR_MALFORMED if a length
 * exceeds its sequence. */
enum gemmd_error attention_request_check_lens(const struct attention_request *request,
                                              const struct attention_operands *operands,
                                              struct fault *fault);

/* O in the request's layout and lse as [batch, heads, sq], without data. False on overflow. All
 * sizes must be known. */
bool attention_request_result(const struct attention_request *request, struct tensor *o,
                              struct tensor *lse);

/* A tensor of this request, [batch, heads, length, width] in the request's layout and rank 4. */
bool attention_request_tensor(const struct attention_request *request, uint64_t heads,
                              uint64_t length, uint64_t width, struct tensor *tensor);

/* Returns whether the parameter of that name was given, or has been marked as given. */
bool attention_request_given(const struct attention_request *request, const char *name);
void attention_request_mark_given(struct attention_request *request, const char *name);
/* Fills in the sizes that have a default and holds all against what is offered. Called by
 * attention_request_check and attention_request_bind. */
enum gemmd_error attention_request_settle_sizes(struct attention_request *request,
                                                struct fault *fault);

#endif
