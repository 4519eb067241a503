/*
 * attention.h - the problems of the operation `attention` (operation.h).
 *
 *   S = cap(scale * Q * K^T) + M + A,  O = softmax(S over the unmasked keys) * V
 *
 * for each of batch x heads, where Q has heads of sq rows (queries) by d, and K and V have heads of
 * skv rows (keys) by d and dv. Several heads of Q may share a head of K and V: head h of Q uses
 * head h / (heads / kv_heads) of K and V. Products, softmax and sums are computed in f32, and O is
 * rounded once to the operands' type. cap(s) = softcap * tanh(s / softcap), or s if softcap is 0.
 *
 * Masks: query i of a batch entry with sq queries and skv keys has position p = i + skv - sq among
 * the keys (bottom-right alignment), or p = i + offset if the problem has an offset. The query sees
 * key j if j <= p or the attention is not causal, and j >= p - window or there is no window, and
 * j <= p + window_right or there is no window to the right, and the operand `mask` does not hide
 * the key. A mask of i8 hides the keys for which its element is 0, and M is 0. A mask of the
 * operands' type is M, which is added to the scores, and hides the keys for which its element is
 * minus infinity. Masked keys and values have no influence on the result, even if they are NaN. A
 * query that sees no key, or that lies beyond the length of its entry, has zeros in O and minus
 * infinity in lse. A query that sees keys has NaN in O if any score is NaN or plus infinity, or if
 * all scores are minus infinity, as IEEE arithmetic gives for the formula above.
 *
 * lse is the logarithm of the sum of exp(S) over the keys that a query sees.
 *
 * A is the bias of ALiBi (O. Press et al., "Train Short, Test Long", 2022): -slopes[h] * |p - j|
 * for head h, computed in f32. A and M are added to each other before they are added to the score.
 * A is 0 if there are no slopes.
 *
 * sinks[h] is one more score of each row of head h, without a value: exp(sinks[h]) is added to the
 * divisor of the weights, and to the sum of which lse is the logarithm (G. Xiao et al., "Efficient
 * Streaming Language Models with Attention Sinks", 2024, and the learned sinks of gpt-oss). The lse
 * of a query that sees no key is then the sink. A sink of NaN or plus infinity makes the rows that
 * see keys NaN.
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
    /* Whether the entries are ragged: their rows follow one another, without padding. sq and skv
     * are then the rows of all entries, lse is [heads, sq], the distance between entries is 0, and
     * there is no mask. lens_q and lens_kv are [batch + 1]: the first row of each entry, from 0 on
     * in ascending order, and then sq and skv. */
    bool ragged;
    bool right_windowed;
    uint64_t window_right; /* read only if right_windowed */
    const float *slopes;   /* [heads], or NULL */
    const float *sinks;    /* [heads], or NULL */
};

/* The strides of a tensor of `heads` heads with `length` rows each; rows of a head, or of all heads
 * if the layout interleaves them, are `leading` elements apart. */
struct attention_strides attention_strides(enum attention_layout layout, uint64_t heads,
                                           uint64_t length, uint64_t leading);

/* The rows of a batch entry: the first of its queries and of its keys, counted from the row at the
 * entry's distance, and their numbers. Reads lens_q and lens_kv. */
struct attention_rows {
    uint64_t first_q, first_kv, sq, skv;
};
struct attention_rows attention_rows(const struct attention_problem *problem, uint64_t entry);

/* The entries that are a distance apart: all, or 1 for a ragged problem. */
static inline uint64_t attention_entries_apart(const struct attention_problem *problem)
{
    return problem->ragged ? 1 : problem->batch;
}

/* The position among the keys of query i of an entry of `sq` queries and `skv` keys. */
int64_t attention_position(const struct attention_problem *problem, uint64_t sq, uint64_t skv,
                           uint64_t i);

/* The keys that a query sees, from `first` to end - 1; none if first == end. */
struct attention_span {
    uint64_t first, end;
};
/* The keys that query i < sq sees. `sq` and `skv` are the lengths of its batch entry. */
struct attention_span attention_span(const struct attention_problem *problem, uint64_t sq,
                                     uint64_t skv, uint64_t i);

/* The number of multiplications and additions in the two products, over all pairs of a query and a
 * key that the query sees. Every entry counts with full length, and a ragged problem with the most
 * pairs that entries of any lengths have. `problem` is a struct attention_problem. */
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
    ATTENTION_PART_SLOPES,
    ATTENTION_PART_SINKS,
    ATTENTION_PART_Q,
    ATTENTION_PART_K,
    ATTENTION_PART_V,
    ATTENTION_PART_MASK,
    ATTENTION_PART_O,
    ATTENTION_PART_LSE
};

#endif
