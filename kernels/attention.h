/*
 * attention.h - the problems of the operation `attention` (operation.h).
 *
 *   S = cap(scale * Q * K^T) + M,  O = softmax(S over the unmasked keys) * V
 *
 * for each of batch x heads, where Q has heads of sq rows (queries) by d, and K and V have heads of
 * skv rows (keys) by d and dv. Several heads of Q may share a head of K and V: head h of Q uses
 * head h / (heads / kv_heads) of K and V. Products, softmax and sums are computed in f32, and O is
 * rounded once to the operands' type. cap(s) = softcap * tanh(s / softcap), or s if softcap is 0.
 *
 * Masks: query i of a batch entry with sq queries and skv keys has position p = i + skv - sq among
 * the keys (bottom-right alignment), or p = i + offset if the problem has an offset. The query sees
 * key j if j <= p or the attention is not causal, and j >= p - window or there is no window, and
 * the operand `mask` does not hide the key. A mask of i8 hides the keys for which its element is 0,
 * and M is 0. A mask of the operands' type is M, which is added to the scores, and hides the keys
 * for which its element is minus infinity. Masked keys and values have no influence on the
 * result, even if they are NaN. A query that sees no key, or that lies beyond the length of its
 * entry, has zeros in O and minus infinity in lse. A query that sees keys has NaN in O if any score
 * is NaN or plus infinity, or if all scores are minus infinity, as IEEE arithmetic gives for the
 * formula above.
 *
 * lse is the logarithm of the sum of exp(S) over the keys that a query sees.
 *
 * Pointers are in the memory of the context's backend (host memory for the CPU), and each is
 * aligned to its elements. O must not overlap an operand. A kernel allocates nothing, and its
 * workspace grows with sq + skv, never with their product.
 */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/operation.h"
#include "proto/attention_request.h"
#include "proto/error.h"

/* The distance from one batch entry, head and row to the next, in elements. The elements of a row
 * are contiguous. */
struct attention_strides {
    uint64_t batch, head, row;
};

struct attention_problem {
    enum gemmd_dtype dtype; /* of Q, K, V and O */
    uint64_t batch, heads, kv_heads, sq, skv, d, dv;
    uint64_t whole_kv_heads; /* of the problem that this one is a subproblem of; 0: no subproblem */
    bool causal, windowed, has_offset;
    uint64_t window;                 /* read only if windowed */
    uint64_t offset;                 /* read only if has_offset */
    float scale, softcap;            /* softcap 0: no cap */
    const int32_t *lens_q, *lens_kv; /* [batch], or both NULL: every entry has sq and skv */
    const void *q, *k, *v;
    const void *mask;            /* [batch, heads, sq, skv] with mask_strides, or NULL */
    enum gemmd_dtype mask_dtype; /* `dtype`, or GEMMD_I8 */
    void *o;
    float *lse; /* [batch, heads, sq], contiguous, or NULL */
    struct attention_strides q_strides, k_strides, v_strides, o_strides;
    /* A distance of 0: the same rows for all entries of the batch, for all heads, or for all
     * queries. */
    struct attention_strides mask_strides;
};

/* The strides of a tensor of `heads` heads with `length` rows each; rows of a head, or of all heads
 * if the layout interleaves them, are `leading` elements apart. */
struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading);

/* The keys that a query sees, from `first` to end - 1; none if first == end. */
struct attention_span {
    uint64_t first, end;
};
/* The keys that query i < sq sees. `sq` and `skv` are the lengths of its batch entry. */
struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i);

/* The number of multiplications and additions in the two products, over all pairs of a query and a
 * key that the query sees. Every entry counts with full length. For metrics. `problem` is a struct
 * attention_problem. */
double attention_flops(const void *problem);

/* One attention of a group, with a workspace of its own (NULL if it needs none). */
struct attention_member {
    const struct attention_problem *problem;
    void *workspace;
};

/* The parts of a problem (operation->parts). */
enum attention_part_number {
    ATTENTION_PART_LENS_Q,
    ATTENTION_PART_LENS_KV,
    ATTENTION_PART_Q,
    ATTENTION_PART_K,
    ATTENTION_PART_V,
    ATTENTION_PART_MASK,
    ATTENTION_PART_O,
    ATTENTION_PART_LSE
};

#endif
