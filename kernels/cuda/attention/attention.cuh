/*
 * attention.cuh - functions that the attention kernels share: the address of a row, the keys that a
 * query sees, and its score. The formulas are the same as in kernels/cpu/attention_naive.c.
 */
#ifndef KERNELS_CUDA_ATTENTION_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_ATTENTION_CUH

#include <math_constants.h>
#include <stdint.h>

#include "kernels/attention.h"

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
    const int64_t position = (int64_t)i + (int64_t)lengths.skv - (int64_t)lengths.sq;
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

} // namespace attention

#endif
