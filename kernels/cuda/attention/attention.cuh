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

/* The lengths of an entry. */
struct lengths {
    uint64_t sq, skv;

    __device__ __forceinline__ lengths(const struct attention_problem &p, uint64_t entry)
        : sq(p.lens_q != nullptr ? (uint64_t)p.lens_q[entry] : p.sq),
          skv(p.lens_q != nullptr ? (uint64_t)p.lens_kv[entry] : p.skv)
    {
    }
};

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

/* The keys that query i sees; none if it lies beyond its entry's length. */
static __device__ __forceinline__ struct attention_span
span_of(const struct attention_problem &p, const struct lengths &lengths, uint64_t i)
{
    const int64_t shift =
        p.has_offset ? (int64_t)p.offset : (int64_t)lengths.skv - (int64_t)lengths.sq;
    const int64_t position = (int64_t)i + shift;
    struct attention_span span = {0, i < lengths.sq ? lengths.skv : 0};
    if (p.causal)
        span.end = clamp(position + 1, span.end);
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

/* The weight of a key that the mask hides. The weight of any other key is NaN or at least +0. */
static __device__ __forceinline__ float hidden_weight()
{
    return -0.0f;
}

static __device__ __forceinline__ bool is_hidden(float weight)
{
    return __float_as_uint(weight) == 0x80000000u;
}

/* The row of the mask for a query of a problem that has a mask. */
template <typename T> struct mask_row {
    const char *first;
    bool is_boolean;

    __device__ __forceinline__ mask_row(const struct attention_problem &p, uint64_t entry,
                                        uint64_t head, uint64_t query)
        : is_boolean(p.mask_dtype == GEMMD_I8)
    {
        const uint64_t size = is_boolean ? 1 : sizeof(T);
        first =
            (const char *)p.mask + size * (entry * p.mask_strides.batch +
                                           head * p.mask_strides.head + query * p.mask_strides.row);
    }

    /* What the mask adds to the score of a key; minus infinity hides the key. */
    __device__ __forceinline__ float at(uint64_t key) const
    {
        if (is_boolean)
            return first[key] != 0 ? 0.0f : -CUDART_INF_F;
        return widen(((const T *)first)[key]);
    }
};

/* The score of a key that the mask adds `added` to. */
static __device__ __forceinline__ float masked_score(float score, float added)
{
    return added == -CUDART_INF_F ? added : __fadd_rn(score, added);
}

} // namespace attention

#endif
