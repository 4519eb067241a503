/*
 * attention.cuh - functions that the attention kernels share: the address of a row, the keys that a
 * query sees, and its score. The formulas are the same as in kernels/cpu/attention_naive.c.
 */
#ifndef KERNELS_CUDA_ATTENTION_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_ATTENTION_CUH

#include <math_constants.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/cuda/epilogue.cuh"

namespace attention
{

/* The entry of a ragged problem that has row or tile `number`, where first(entry) is the number of
 * the first one of an entry. */
template <typename Number, class First>
static __device__ __forceinline__ Number ragged_entry(Number batch, Number number,
                                                      const First &first)
{
    Number low = 0, high = batch - 1;
    while (low < high) {
        const Number middle = (low + high + 1) / 2;
        if (first(middle) <= number)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The rows of an entry (attention_rows). Without RAGGED no problem is ragged. */
template <bool RAGGED>
static __device__ __forceinline__ struct attention_rows rows_of(const struct attention_problem &p,
                                                                uint64_t entry)
{
    struct attention_rows rows = {0, 0, p.sq, p.skv};
    if (p.lens_q != nullptr) {
        rows.sq = (uint64_t)p.lens_q[entry];
        rows.skv = (uint64_t)p.lens_kv[entry];
    }
    if (RAGGED && p.ragged) {
        rows.first_q = rows.sq;
        rows.first_kv = rows.skv;
        rows.sq = (uint64_t)p.lens_q[entry + 1] - rows.first_q;
        rows.skv = (uint64_t)p.lens_kv[entry + 1] - rows.first_kv;
    }
    return rows;
}

/* The first element of a row. */
template <typename T>
static __device__ __forceinline__ T *row_of(T *tensor, const struct attention_strides &strides,
                                            uint64_t entry, uint64_t head, uint64_t row)
{
    return tensor + entry * strides.batch + head * strides.head + row * strides.row;
}

/* `value`, but at least 0 and at most `limit`. */
static __device__ __forceinline__ uint64_t clamp(int64_t value, uint64_t limit)
{
    return value < 0 ? 0 : (uint64_t)value < limit ? (uint64_t)value : limit;
}

/* The position among the keys of query i of an entry with these rows. */
static __device__ __forceinline__ int64_t position_of(const struct attention_problem &p,
                                                      const struct attention_rows &rows, uint64_t i)
{
    return (int64_t)i + (p.has_offset ? (int64_t)p.offset : (int64_t)rows.skv - (int64_t)rows.sq);
}

/* The keys that query i sees; none if it lies beyond its entry's length. Without RIGHT no problem
 * has a window to the right. */
template <bool RIGHT>
static __device__ __forceinline__ struct attention_span
span_of(const struct attention_problem &p, const struct attention_rows &rows, uint64_t i)
{
    const int64_t position = position_of(p, rows, i);
    struct attention_span span = {0, i < rows.sq ? rows.skv : 0};
    if (p.causal)
        span.end = clamp(position + 1, span.end);
    else if (RIGHT && p.right_windowed)
        span.end = clamp(position + 1 + (int64_t)p.window_right, span.end);
    if (p.windowed)
        span.first = clamp(position - (int64_t)p.window, span.end);
    return span;
}

/* The score of a key, from the product of a row of Q and a row of K. The score is rounded here, and
 * its multiplication is not fused with a later subtraction, so that a score is the same wherever it
 * is computed. */
static __device__ __forceinline__ float score_of(float product, float scale, float softcap)
{
    const float score = __fmul_rn(product, scale);
    return softcap > 0 ? __fmul_rn(softcap, tanhf(score / softcap)) : score;
}

/* The weight of a key that the bias hides. The weight of any other key is NaN or at least +0. */
static __device__ __forceinline__ float hidden_weight()
{
    return -0.0f;
}

static __device__ __forceinline__ bool is_hidden(float weight)
{
    return __float_as_uint(weight) == 0x80000000u;
}

/* What the mask and the slopes add to the scores of a query, from the query's row of the mask. */
template <typename T> struct bias_row {
    const char *mask; // NULL: none
    bool is_boolean;
    float slope; // 0: none
    int64_t position;

    __device__ __forceinline__ bias_row(const struct attention_problem &p,
                                        const struct attention_rows &rows, uint64_t entry,
                                        uint64_t head, uint64_t query)
        : mask((const char *)p.mask), is_boolean(p.mask_dtype == GEMMD_I8),
          slope(p.slopes != nullptr ? p.slopes[head] : 0.0f), position(position_of(p, rows, query))
    {
        const uint64_t size = is_boolean ? 1 : sizeof(T);
        if (mask != nullptr)
            mask += size * (entry * p.mask_strides.batch + head * p.mask_strides.head +
                            query * p.mask_strides.row);
    }

    /* What is added to the score of a key; minus infinity hides the key. */
    __device__ __forceinline__ float at(uint64_t key) const
    {
        float added = 0;
        if (mask != nullptr)
            added = is_boolean ? (mask[key] != 0 ? 0.0f : -CUDART_INF_F)
                               : widen(((const T *)mask)[key]);
        if (slope != 0)
            added = __fsub_rn(added, __fmul_rn(slope, fabsf((float)((int64_t)key - position))));
        return added;
    }
};

/* The score of a key to which `added` is added. */
static __device__ __forceinline__ float biased_score(float score, float added)
{
    return added == -CUDART_INF_F ? added : __fadd_rn(score, added);
}

/* The number that is subtracted from scores. While all scores are minus infinity, any finite number
 * is right. */
static __device__ __forceinline__ float base_of(float most)
{
    return most == -CUDART_INF_F ? 0 : most;
}

} // namespace attention

#endif
