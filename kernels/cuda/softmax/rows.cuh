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

#include "kernels/cuda/vector.cuh"
#include "kernels/softmax.h"

namespace softmax
{

using vectors::sum_pairwise;
using vectors::vector;
using vectors::wide_of;
using vectors::widen;

static __device__ __forceinline__ void narrow(double x, double *y)
{
    *y = x;
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

/* Converts two elements at a time, which takes one instruction for 16-bit types. */
template <typename W> static __device__ __forceinline__ void narrow_pair(W first, W second, W y[2])
{
    y[0] = first;
    y[1] = second;
}
static __device__ __forceinline__ void narrow_pair(float first, float second, __half y[2])
{
    const __half2 both = __floats2half2_rn(first, second);
    y[0] = both.x;
    y[1] = both.y;
}
static __device__ __forceinline__ void narrow_pair(float first, float second, __nv_bfloat16 y[2])
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    y[0] = both.x;
    y[1] = both.y;
}

/* The number of unmasked elements of a row. */
static __device__ __forceinline__ uint32_t length_of(const struct softmax_problem &p, uint64_t row)
{
    return p.lens != nullptr ? (uint32_t)p.lens[row / p.rows_per_len] : (uint32_t)p.length;
}

/* Scores relative to the greatest of the row, (x - greatest x) * scale, with the rounding errors of
 * a difference and a product: they do not grow with the scores themselves, and the greatest is
 * exactly 0. `unit` is 1 or -1, so that the greatest x * unit has the greatest score. It is 0.5 or
 * -0.5 if |scale| is less than 1, because a difference of two elements may then be out of range
 * where its product with the scale is not. For a scale of 0 the unit is 0 and the factor 1.
 *
 * Kernels with little room take it from their parameters, which instructions read where they are:
 * in registers it would cost more than a score does. */
template <typename W> struct scaling {
    W unit, factor; /* unit * factor is the scale, and factor is greater than 0 */
    scaling() = default;
    explicit __host__ __device__ scaling(double scale)
    {
        const W magnitude = (W)fabs(scale), half = magnitude < 1 ? W(0.5) : W(1);
        unit = magnitude == 0 ? 0 : scale < 0 ? -half : half;
        factor = magnitude == 0 ? 1 : magnitude / half;
    }
    /* The score of x relative to that of an element whose product with `unit` is `top`. */
    __device__ __forceinline__ W relative(W x, W top) const
    {
        return fma(x, unit, -top) * factor;
    }
};

struct larger {
    template <typename W> static __device__ __forceinline__ W join(W a, W b)
    {
        return fmax(a, b);
    }
};
struct added {
    template <typename W> static __device__ __forceinline__ W join(W a, W b)
    {
        return a + b;
    }
};

/* Joins the values of the EACH threads of a row. All of them get the result. `shared` has an
 * element for each warp of the block, and is used only if a row has more than one warp. Calls may
 * use the same `shared` one after another. */
template <typename Join, unsigned EACH, typename W>
static __device__ __forceinline__ W join_threads(W value, W *shared)
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
        value = shared[threadIdx.x / EACH * WARPS + threadIdx.x % WARPS];
#pragma unroll
        for (unsigned half = WARPS / 2; half > 0; half /= 2)
            value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, half));
    }
    return value;
}

/* A thread's share of a row: VECTORS vectors, which are EACH vectors apart. */
template <typename T, unsigned EACH, unsigned VECTORS> struct row {
    static constexpr unsigned COUNT = vector<T>::WIDTH;
    using W = typename wide_of<T>::type;
    vector<T> x[VECTORS];
    uint32_t first;  /* the first element of this block's part of the row */
    uint32_t length; /* the end of the unmasked elements */
    uint32_t end;    /* the end of all elements */

    /* The place in the row of the first element of vector v. */
    __device__ __forceinline__ uint32_t at(unsigned v) const
    {
        return first + (v * EACH + threadIdx.x % EACH) * COUNT;
    }

    __device__ __forceinline__ void load(const T *from, bool aligned)
    {
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++)
            if (aligned && at(v) + COUNT <= length)
                x[v].bits = __ldcs((const typename vector<T>::line *)(from + at(v)));
            else
#pragma unroll
                for (unsigned i = 0; i < COUNT; i++)
                    x[v].elements[i] = at(v) + i < length ? from[at(v) + i] : T(0.0f);
    }

    /* The greatest product of this thread's elements with scaling::unit; minus infinity if there
     * are none. */
    __device__ __forceinline__ W most(W unit) const
    {
        W top = W(-CUDART_INF);
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++)
            if (at(v) + COUNT <= length) {
#pragma unroll
                for (unsigned i = 0; i < COUNT; i++)
                    top = fmax(top, x[v][i] * unit);
            } else if (at(v) < length) {
#pragma unroll
                for (unsigned i = 0; i < COUNT; i++)
                    top = fmax(top, at(v) + i < length ? x[v][i] * unit : W(-CUDART_INF));
            }
        return top;
    }

    /* exp of the scores of a vector relative to that of `top`; 0 for masked elements. */
    __device__ __forceinline__ void exponentials_of(unsigned v, const scaling<W> &scale, W top,
                                                    W e[COUNT]) const
    {
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            e[i] = 0;
        if (at(v) >= length)
            return;
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            e[i] = exp(scale.relative(x[v][i], top));
        if (at(v) + COUNT > length) {
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                e[i] = at(v) + i < length ? e[i] : 0;
        }
    }

    __device__ __forceinline__ void exponentials(const scaling<W> &scale, W top,
                                                 W e[VECTORS][COUNT]) const
    {
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++)
            exponentials_of(v, scale, top, e[v]);
    }

    /* The sum of a thread's exponentials, as a pairwise tree. */
    static __device__ __forceinline__ W total(const W e[VECTORS][COUNT])
    {
        W sums[VECTORS];
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            W s[COUNT];
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                s[i] = e[v][i];
            sums[v] = sum_pairwise(s);
        }
        return sum_pairwise(sums);
    }

    /* The same sum, where X is needed later and the exponentials are not. */
    __device__ __forceinline__ W total_of_exponentials(const scaling<W> &scale, W top) const
    {
        W sums[VECTORS];
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            W e[COUNT];
            exponentials_of(v, scale, top, e);
            sums[v] = sum_pairwise(e);
        }
        return sum_pairwise(sums);
    }

    /* Stores the values y of a vector, and `masked` in place of those of masked elements. */
    template <typename Out>
    __device__ __forceinline__ void store_vector(Out *to, bool aligned, unsigned v, W y[COUNT],
                                                 W masked) const
    {
        struct __align__(COUNT * sizeof(Out)) group
        {
            Out elements[COUNT];
        }
        narrowed;
        if (at(v) + COUNT > length) {
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                y[i] = at(v) + i < length ? y[i] : masked;
        }
#pragma unroll
        for (unsigned i = 0; i < COUNT; i += 2)
            narrow_pair(y[i], y[i + 1], &narrowed.elements[i]);
        if (aligned && at(v) + COUNT <= end)
            *(group *)(to + at(v)) = narrowed;
        else
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                if (at(v) + i < end)
                    to[at(v) + i] = narrowed.elements[i];
    }

    /* The softmax of a row whose exponentials `e` have to be multiplied by `factor`. */
    template <typename Out>
    __device__ __forceinline__ void store_softmax(Out *to, bool aligned, const W e[VECTORS][COUNT],
                                                  W factor) const
    {
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            W y[COUNT];
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                y[i] = e[v][i] * factor;
            store_vector(to, aligned, v, y, 0);
        }
    }

    /* The softmax of a row whose elements are still there: their exponentials * factor. */
    template <typename Out>
    __device__ __forceinline__ void store_softmax(Out *to, bool aligned, const scaling<W> &scale,
                                                  W top, W factor) const
    {
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            W y[COUNT];
            exponentials_of(v, scale, top, y);
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                y[i] *= factor;
            store_vector(to, aligned, v, y, 0);
        }
    }

    template <typename Out>
    __device__ __forceinline__ void store_log_softmax(Out *to, bool aligned,
                                                      const scaling<W> &scale, W top, W sum) const
    {
        const W logarithm = log(sum);
#pragma unroll
        for (unsigned v = 0; v < VECTORS; v++) {
            W y[COUNT];
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                y[i] = scale.relative(x[v][i], top) - logarithm;
            store_vector(to, aligned, v, y, W(-CUDART_INF));
        }
    }
};

} // namespace softmax

#endif
