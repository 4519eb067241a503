/*
 * state.cuh - the operations of reductions. The state of an operation is what has to be known of a
 * set of elements to compute the result: their sum, for example.
 *
 * Each operation is a struct of the same functions, for elements of type W:
 *
 *   none     the state of no elements
 *   one      the state of one element
 *   several  the state of several neighbouring elements of f32 (overwrites them)
 *   both     the state of two sets of elements together; their order matters only for rounding
 *   neutral  an element that changes no result, for the places of a vector beyond the last element
 *   exact    whether the order of elements makes no difference at all, so that no tree is needed
 *
 * `finish` computes the result from the state of all elements and stores it.
 */
#ifndef KERNELS_CUDA_REDUCE_STATE_CUH
#define KERNELS_CUDA_REDUCE_STATE_CUH

#include <math_constants.h>
#include <stdint.h>

#include "kernels/cuda/vector.cuh"
#include "kernels/reduce.h"

namespace reduce
{

/* The type in which elements are reduced. */
template <typename T> struct wide_of {
    using type = float;
};
template <> struct wide_of<double> {
    using type = double;
};
template <> struct wide_of<int8_t> {
    using type = long long;
};
template <> struct wide_of<int32_t> {
    using type = long long;
};

using vectors::sum_pairwise;
using vectors::widen;
static __device__ __forceinline__ double widen(double x)
{
    return x;
}
static __device__ __forceinline__ long long widen(int8_t x)
{
    return x;
}
static __device__ __forceinline__ long long widen(int32_t x)
{
    return x;
}

static __device__ __forceinline__ bool is_nan(float x)
{
    return isnan(x);
}
static __device__ __forceinline__ bool is_nan(double x)
{
    return isnan(x);
}
static __device__ __forceinline__ bool is_nan(long long)
{
    return false;
}

/* The greater of two, or NaN if either is NaN. */
static __device__ __forceinline__ float greater_or_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}

/* sum and mean. Sums of integers are exact. */
template <typename W> struct sum {
    static constexpr bool exact = sizeof(W) == sizeof(long long) && W(1) / W(2) == W(0);
    struct state {
        W value;
    };
    static __device__ __forceinline__ state none()
    {
        return {W(0)};
    }
    static __device__ __forceinline__ state one(W x, uint32_t, enum reduce_op)
    {
        return {x};
    }
    static __device__ __forceinline__ float neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(float (&x)[COUNT], uint32_t, enum reduce_op)
    {
        return {sum_pairwise(x)};
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        return {a.value + b.value};
    }
};

/* norm2: the sum of squares. */
template <typename W> struct squares {
    static constexpr bool exact = false;
    using state = typename sum<W>::state;
    static __device__ __forceinline__ state none()
    {
        return {W(0)};
    }
    static __device__ __forceinline__ state one(W x, uint32_t, enum reduce_op)
    {
        return {x * x};
    }
    static __device__ __forceinline__ float neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(float (&x)[COUNT], uint32_t, enum reduce_op)
    {
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            x[i] *= x[i];
        return {sum_pairwise(x)};
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        return {a.value + b.value};
    }
};

/* max, min and argmax: the greatest element and its place. For min, elements are negated. NaN is
 * greater than all numbers. A place of UINT32_MAX: there is no element. */
template <typename W> struct most {
    static constexpr bool exact = true;
    struct state {
        W value;
        uint32_t place;
    };
    static __device__ __forceinline__ state none()
    {
        return {W(0), UINT32_MAX};
    }
    static __device__ __forceinline__ state one(W x, uint32_t place, enum reduce_op op)
    {
        return {op == REDUCE_MIN ? -x : x, place};
    }
    static __device__ __forceinline__ float neutral(enum reduce_op op)
    {
        return op == REDUCE_MIN ? CUDART_INF_F : -CUDART_INF_F;
    }
    /* The place is right for argmax only, which alone needs it. */
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(float (&x)[COUNT], uint32_t place,
                                                    enum reduce_op op)
    {
        if (op == REDUCE_MIN) {
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                x[i] = -x[i];
        }
        float top = x[0];
#pragma unroll
        for (unsigned i = 1; i < COUNT; i++)
            top = greater_or_nan(top, x[i]);
        if (op != REDUCE_ARGMAX)
            return {top, place};
        uint32_t first = 0;
#pragma unroll
        for (unsigned i = COUNT - 1; i > 0; i--)
            first = x[i] == top ? i : first;
        first = x[0] == top ? 0 : first;
        if (is_nan(top)) {
#pragma unroll
            for (unsigned i = COUNT - 1; i > 0; i--)
                first = is_nan(x[i]) ? i : first;
            first = is_nan(x[0]) ? 0 : first;
        }
        return {top, place + first};
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        if (a.place == UINT32_MAX || b.place == UINT32_MAX)
            return a.place == UINT32_MAX ? b : a;
        const bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        if (nan_a != nan_b)
            return nan_a ? a : b;
        if (nan_a || a.value == b.value)
            return a.place < b.place ? a : b;
        return a.value > b.value ? a : b;
    }
};

static __device__ __forceinline__ float exponential(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exponential(double x)
{
    return exp(x);
}

/* logsumexp: the greatest element, and the sum of exp(x - greatest). */
template <typename W> struct logsumexp {
    static constexpr bool exact = false;
    struct state {
        W most, total;
    };
    static __device__ __forceinline__ state none()
    {
        return {W(-CUDART_INF), W(0)};
    }
    static __device__ __forceinline__ state one(W x, uint32_t, enum reduce_op)
    {
        return {x, W(1)};
    }
    static __device__ __forceinline__ float neutral(enum reduce_op)
    {
        return -CUDART_INF_F;
    }
    /* If the greatest element is infinite, it is the result (finish), whatever the total. */
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(float (&x)[COUNT], uint32_t, enum reduce_op)
    {
        float top = x[0];
#pragma unroll
        for (unsigned i = 1; i < COUNT; i++)
            top = greater_or_nan(top, x[i]);
        const float from = isinf(top) ? 0 : top;
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            x[i] = expf(x[i] - from);
        return {top, sum_pairwise(x)};
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        const bool first = is_nan(a.most) || a.most > b.most;
        const state greater = first ? a : b, other = first ? b : a;
        const W factor = other.most == greater.most ? W(1) : exponential(other.most - greater.most);
        return {greater.most, greater.total + other.total * factor};
    }
};

/* Stores a result. Integers wrap in integer types, and are rounded in the others. */
template <typename W>
static __device__ __forceinline__ void store(enum gemmd_dtype out, W x, void *y, uint64_t i)
{
    switch (out) {
    case GEMMD_F64:
        ((double *)y)[i] = (double)x;
        break;
    case GEMMD_F32:
        ((float *)y)[i] = (float)x;
        break;
    case GEMMD_F16:
        ((__half *)y)[i] = __float2half_rn((float)x);
        break;
    case GEMMD_BF16:
        ((__nv_bfloat16 *)y)[i] = __float2bfloat16_rn((float)x);
        break;
    case GEMMD_I8:
        ((int8_t *)y)[i] = (int8_t)(long long)x;
        break;
    default:
        ((int32_t *)y)[i] = (int32_t)(long long)x;
    }
}

static __device__ __forceinline__ float root(float x)
{
    return sqrtf(x);
}
static __device__ __forceinline__ double root(double x)
{
    return sqrt(x);
}
static __device__ __forceinline__ long long root(long long x)
{
    return x; /* norm2 of integers is not offered */
}

template <typename W>
static __device__ __forceinline__ void finish(const struct reduce_problem &p,
                                              typename sum<W>::state s, void *y, uint64_t i)
{
    if (p.op == REDUCE_MEAN && sizeof(W) == sizeof(long long))
        store(p.out, (double)s.value / (double)p.length, y, i);
    else if (p.op == REDUCE_MEAN)
        store(p.out, s.value / (W)p.length, y, i);
    else if (p.op == REDUCE_NORM2)
        store(p.out, root(s.value), y, i);
    else
        store(p.out, s.value, y, i);
}
template <typename W>
static __device__ __forceinline__ void finish(const struct reduce_problem &p,
                                              typename most<W>::state s, void *y, uint64_t i)
{
    if (p.op == REDUCE_ARGMAX)
        ((int32_t *)y)[i] = (int32_t)s.place;
    else
        store(p.out, p.op == REDUCE_MIN ? -s.value : s.value, y, i);
}
template <typename W>
static __device__ __forceinline__ void finish(const struct reduce_problem &p,
                                              typename logsumexp<W>::state s, void *y, uint64_t i)
{
    store(p.out, isinf(s.most) ? s.most : s.most + log(s.total), y, i);
}

/* Joins states that come one after another as a pairwise tree, so that rounding errors grow with
 * the logarithm of their number (kernels/cpu/reduce_vector.c does the same with blocks). states[k]
 * is the state of a complete subtree of 2^k states, if bit k of `count` is set; a new state is
 * joined with the complete subtrees as a carry moves through the bits of a counter. Beyond 2^LEVELS
 * states the top level joins one after the other. */
template <typename Op, int LEVELS> struct counter {
    typename Op::state states[LEVELS];
    uint32_t count = 0;
    __device__ __forceinline__ void add(typename Op::state s)
    {
        bool carries = true;
#pragma unroll
        for (int level = 0; level < LEVELS; level++)
            if (carries) {
                carries = (count >> level & 1) != 0;
                if (carries)
                    s = Op::both(states[level], s);
                else
                    states[level] = s;
            }
        if (carries) /* all levels were full: the state of everything */
            states[LEVELS - 1] = s;
        count = carries ? 1u << (LEVELS - 1) : count + 1;
    }
    __device__ __forceinline__ typename Op::state total() const
    {
        typename Op::state s = Op::none();
#pragma unroll
        for (int level = 0; level < LEVELS; level++)
            if ((count >> level & 1) != 0)
                s = Op::both(states[level], s);
        return s;
    }
};

/* Calls f with the element type of a problem. Returns GEMMD_ERR_UNSUPPORTED for other types. */
template <typename F> static enum gemmd_error with_type(enum gemmd_dtype dtype, F f)
{
    switch (dtype) {
    case GEMMD_F64:
        return f(double());
    case GEMMD_F32:
        return f(float());
    case GEMMD_F16:
        return f(__half());
    case GEMMD_BF16:
        return f(__nv_bfloat16());
    case GEMMD_I8:
        return f(int8_t());
    case GEMMD_I32:
        return f(int32_t());
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

} // namespace reduce

#endif
