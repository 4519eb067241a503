/*
 * arguments.h - a problem in the form that the fast attention kernels use: sizes of 32 bits, masks
 * in one form, and the factor of the exponent.
 *
 * The weights are computed as powers of 2: the weight of a score S is 2^(S * log2 e - most), where
 * `most` is the largest S * log2 e of the row. For S = scale * product, log2 e * scale is a single
 * factor, which is applied in the multiply-add that subtracts `most`. This is possible if the scale
 * keeps the order of the products. For other scales, and with a soft cap, the scores are computed
 * first (`general`).
 */
#ifndef KERNELS_CUDA_ATTENTION_ARGUMENTS_H
#define KERNELS_CUDA_ATTENTION_ARGUMENTS_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "kernels/attention.h"

enum {
    ATTENTION_LENGTH_MAX = 1 << 30
}; /* of sq and skv, so that their differences fit in 32 bits */

/* Distances between batch entries, heads and rows, in elements. */
struct attention_steps {
    int64_t batch, head, row;
};

struct attention_arguments {
    const void *q, *k, *v;
    void *o;
    float *lse;                      /* [batch, heads, sq] or NULL */
    const int32_t *lens_q, *lens_kv; /* [batch] or both NULL */
    struct attention_steps q_steps, k_steps, v_steps, o_steps;
    uint32_t batch, heads, group; /* group: query heads that share a head of K and V */
    uint32_t sq, skv, d, dv;
    uint32_t causal;
    uint32_t window;         /* sq + skv or more: no window */
    uint32_t general;        /* scores are scaled and capped before the maximum is taken */
    uint32_t o_pieces;       /* whether each 8 elements of a row of O are aligned to 16 bytes */
    float scale, softcap;    /* softcap 0: no cap */
    float scale_of_cap;      /* scale / softcap */
    float exponent_of_score; /* log2 e; log2 e * scale if not general */
};

/* Whether the sizes of the problem fit in 32 bits, and the quotient of scale and soft cap in f32
 * with all its digits. */
static inline bool attention_arguments_fit(const struct attention_problem *p)
{
    const uint64_t rows_max = INT32_MAX;
    const float of_cap = p->softcap > 0 ? fabsf(p->scale / p->softcap) : 1;
    return (p->scale == 0 || (of_cap >= FLT_MIN && of_cap <= FLT_MAX)) &&
           p->sq <= ATTENTION_LENGTH_MAX && p->skv <= ATTENTION_LENGTH_MAX && p->heads > 0 &&
           p->batch <= rows_max / p->heads;
}

static inline bool attention_aligned(const struct attention_strides *strides, uint64_t elements)
{
    return strides->batch % elements == 0 && strides->head % elements == 0 &&
           strides->row % elements == 0;
}

static inline struct attention_steps attention_steps_of(const struct attention_strides *s)
{
    struct attention_steps steps = {(int64_t)s->batch, (int64_t)s->head, (int64_t)s->row};
    return steps;
}

/* Fills in the arguments for a problem of 16-bit types whose sizes fit. */
static inline void attention_arguments_fill(const struct attention_problem *p,
                                            struct attention_arguments *a)
{
    const float log2_e = 1.44269504f, usual_min = 1e-30f, usual_max = 1e30f;
    const uint64_t none = p->sq + p->skv;
    a->q = p->q;
    a->k = p->k;
    a->v = p->v;
    a->o = p->o;
    a->lse = p->lse;
    a->lens_q = p->lens_q;
    a->lens_kv = p->lens_kv;
    a->q_steps = attention_steps_of(&p->q_strides);
    a->k_steps = attention_steps_of(&p->k_strides);
    a->v_steps = attention_steps_of(&p->v_strides);
    a->o_steps = attention_steps_of(&p->o_strides);
    a->batch = (uint32_t)p->batch;
    a->heads = (uint32_t)p->heads;
    a->group = (uint32_t)(p->heads / p->kv_heads);
    a->sq = (uint32_t)p->sq;
    a->skv = (uint32_t)p->skv;
    a->d = (uint32_t)p->d;
    a->dv = (uint32_t)p->dv;
    a->causal = p->causal;
    a->window = (uint32_t)(p->windowed && p->window < none ? p->window : none);
    a->general = p->softcap > 0 || !(p->scale >= usual_min && p->scale <= usual_max);
    a->o_pieces = attention_aligned(&p->o_strides, 8) && (uintptr_t)p->o % 16 == 0;
    a->scale = p->scale;
    a->softcap = p->softcap;
    a->scale_of_cap = p->softcap > 0 ? p->scale / p->softcap : 0;
    a->exponent_of_score = a->general ? log2_e : log2_e * p->scale;
}

#endif
