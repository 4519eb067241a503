/*
 * rows.cuh - rows of a softmax that are read once and kept in registers.
 *
 * EACH threads have a row, and each of them VECTORS vectors of 16 bytes. All loads of a thread are
 * issued before the first is used. The maximum and the sum are joined by warp shuffles, and over
 * the warps of a row in shared memory. Where threads and vectors do not depend on the other rows,
 * neither do the bits.
 */
#ifndef KERNELS_CUDA_SOFTMAX_ROWS_CUH
#define KERNELS_CUDA_SOFTMAX_ROWS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

#include "kernels/softmax.h"

namespace softmax
{

static __device__ __forceinline__ float widen(float x)
{
    return x;
}
static __device__ __forceinline__ float widen(__half x)
{
    return __half2float(x);
}
static __device__ __forceinline__ float widen(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ void narrow(float x, float *y)
{
    *y = x;
}
static __device__ __forceinline__ void narrow(float x, __half *y)
{
    *y = __float2half_rn(x);
}
static __device__ __forceinline__ void narrow(float x, __nv_bfloat16 *y)
{
    *y = __float2bfloat16_rn(x);
}

template <typename T> struct vector {
    static constexpr unsigned WIDTH = 16 / sizeof(T);
    union {
        uint4 bits;
        T elements[WIDTH];
    };
    __device__ vector()
    {
    }
};

/* The number of unmasked elements of a row. */
static __device__ __forceinline__ uint32_t length_of(const struct softmax_problem &p, uint64_t row)
{
    return p.lens != nullptr ? (uint32_t)p.lens[row / p.rows_per_len] : (uint32_t)p.length;
}

struct larger {
    static __device__ __forceinline__ float join(float a, float b)
    {
        return fmaxf(a, b);
    }
};
struct added {
    static __device__ __forceinline__ float join(float a, float b)
    {
        return a + b;
    }
};

/* Joins the values of the EACH threads of a row, in all of them. `shared` has an element for each
 * warp, if a row has more than one, and is used by one call after another. */
template <typename Join, unsigned EACH>
static __device__ __forceinline__ float join_threads(float value, float *shared)
{
    constexpr unsigned LANES = EACH < 32 ? EACH : 32, WARPS = EACH / 32;
#pragma unroll
    for (unsigned half = LANES / 2; half > 0; half /= 2)
        value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, half));
    if constexpr (WARPS > 1) {
        __syncthreads();
        if (threadIdx.x % 32 == 0)
            shared[threadIdx.x / 32] = value;
        __syncthreads();
        value = shared[threadIdx.x % WARPS];
#pragma unroll
        for (unsigned half = WARPS / 2; half > 0; half /= 2)
            value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, half));
    }
    return value;
}

template <typename T, unsigned EACH, unsigned VECTORS> struct row {
    static constexpr unsigned W = vector<T>::WIDTH;
    vector<T> x[VECTORS];
    uint32_t thread; /* 0 ... EACH - 1 */
    uint32_t first;  /* the first element of this block's part of the row */
    uint32_t length; /* of unmasked elements */
    uint32_t end;    /* of all elements */

    __device__ __forceinline__ uint32_t at(unsigned v) const
    {
        return first + (v * EACH + thread) * W;
    }

    __device__ __forceinline__ void load(const T *from, bool aligned)
    {
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++)
            if (aligned && at(v) + W <= length)
                x[v].bits = __ldcs((const uint4 *)(from + at(v)));
            else
#pragma unroll
                for (unsigned i = 0; i < W; i++)
                    if (at(v) + i < length)
                        x[v].elements[i] = from[at(v) + i];
    }

    /* Minus infinity for masked elements, of which nothing was read. */
    __device__ __forceinline__ float score(unsigned v, unsigned i, float scale) const
    {
        return at(v) + i < length ? widen(x[v].elements[i]) * scale : -CUDART_INF_F;
    }

    __device__ __forceinline__ float most(float scale) const
    {
        float top = -CUDART_INF_F;
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++)
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                top = fmaxf(top, score(v, i, scale));
        return top;
    }

    /* The sum of exp(score - top), as a pairwise tree. */
    __device__ __forceinline__ float total(float scale, float top) const
    {
        float sums[VECTORS];
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            float s[W];
#pragma unroll
            for (unsigned i = 0; i < W; i++)
                s[i] = at(v) + i < length ? expf(score(v, i, scale) - top) : 0;
#pragma unroll
            for (unsigned half = W / 2; half > 0; half /= 2)
#pragma unroll
                for (unsigned i = 0; i < half; i++)
                    s[i] += s[i + half];
            sums[v] = s[0];
        }
#pragma unroll
        for (unsigned half = VECTORS / 2; half > 0; half /= 2)
#pragma unroll
            for (unsigned v = 0; v < half; v++)
                sums[v] += sums[v + half];
        return sums[0];
    }

    template <typename Out>
    __device__ __forceinline__ void store(Out *to, bool aligned, const struct softmax_problem &p,
                                          float top, float sum) const
    {
        const float scale = (float)p.scale, inverse = 1 / sum, logarithm = logf(sum);
        struct __align__(W * sizeof(Out)) group
        {
            Out elements[W];
        };
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            group y;
#pragma unroll
            for (unsigned i = 0; i < W; i++) {
                const float difference = score(v, i, scale) - top;
                const bool masked = at(v) + i >= length;
                narrow(p.log ? (masked ? -CUDART_INF_F : difference - logarithm)
                             : (masked ? 0 : expf(difference) * inverse),
                       &y.elements[i]);
            }
            if (aligned && at(v) + W <= end)
                *(group *)(to + at(v)) = y;
            else
#pragma unroll
                for (unsigned i = 0; i < W; i++)
                    if (at(v) + i < end)
                        to[at(v) + i] = y.elements[i];
        }
    }
};

} // namespace softmax

#endif
