/*
 * state.cuh - the operations of reductions. The state of an operation is what has to be known of a
 * set of elements to compute the result: their sum, for example.
 *
 * Each operation is a struct of the same functions, for elements of type W:
 *
 *   none     the state of no elements
 *   one      the state of one element
 *   several  the state of several elements, whose places are `step` apart (overwrites them)
 *   both     the state of two sets of elements together; their order matters only for rounding
 *   neutral  an element that changes no result, for places beyond the last element
 *   finish   computes the result from the state of all elements and stores it
 *   exact    whether the order of elements makes no difference at all, so that no tree is needed
 */
#ifndef KERNELS_CUDA_REDUCE_STATE_CUH
#define KERNELS_CUDA_REDUCE_STATE_CUH

#include <math_constants.h>
#include <stdint.h>
#include <type_traits>

#include "kernels/cuda/vector.cuh"
#include "kernels/reduce.h"

namespace reduce
{

using vectors::sum_pairwise;
using vectors::wide_of;
using vectors::widen;

template <typename W> static __device__ __forceinline__ bool is_nan(W x)
{
    if constexpr (std::is_integral<W>::value)
        return false;
    else
        return isnan(x);
}

/* The greater of two, or NaN if either is NaN. */
static __device__ __forceinline__ float greater_or_nan(float a, float b)
{
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
template <typename W> static __device__ __forceinline__ W greater_or_nan(W a, W b)
{
    return a > b || is_nan(a) ? a : b;
}

/* A number that is the greater the smaller x is. The negative of an integer need not exist. */
template <typename W> static __device__ __forceinline__ W reversed(W x)
{
    if constexpr (std::is_integral<W>::value)
        return (W)~x;
    else
        return -x;
}

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

/* sum and mean. Sums of integers are exact. */
template <typename W> struct sum {
    static constexpr bool exact = std::is_integral<W>::value;
    struct state {
        std::conditional_t<exact, long long, W> value;
    };
    static __device__ __forceinline__ state none()
    {
        return {0};
    }
    static __device__ __forceinline__ state one(W x, uint32_t, enum reduce_op)
    {
        return {x};
    }
    static __device__ __forceinline__ W neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(W (&x)[COUNT], uint32_t, uint32_t,
                                                    enum reduce_op)
    {
        if constexpr (exact) {
            static_assert(COUNT <= 256, "the sum of so many i8 fits an int");
            std::conditional_t<sizeof(W) == sizeof(short), int, long long> total = 0;
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                total += x[i];
            return {total};
        } else {
            return {sum_pairwise(x)};
        }
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        return {a.value + b.value};
    }
    static __device__ __forceinline__ void finish(const struct reduce_problem &p, state s,
                                                  uint64_t i)
    {
        using quotient = std::conditional_t<exact, double, W>;
        if (p.op == REDUCE_MEAN)
            store(p.out, (quotient)s.value / (quotient)p.length, p.y, i);
        else
            store(p.out, s.value, p.y, i);
    }
};

/* norm2 of elements whose squares, and their sums, W can hold: of f16 in f32. */
template <typename W> struct squares {
    static constexpr bool exact = false;
    using state = typename sum<W>::state;
    static __device__ __forceinline__ state none()
    {
        return {0};
    }
    static __device__ __forceinline__ state one(W x, uint32_t, enum reduce_op)
    {
        return {x * x};
    }
    static __device__ __forceinline__ W neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(W (&x)[COUNT], uint32_t, uint32_t,
                                                    enum reduce_op)
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
    static __device__ __forceinline__ void finish(const struct reduce_problem &p, state s,
                                                  uint64_t i)
    {
        store(p.out, sqrt(s.value), p.y, i);
    }
};

/* norm2 of elements that f32 holds and whose squares may leave its range. The few elements that a
 * thread loads at once are summed in f32, and in f64 if that sum is out of range, or so small that
 * squares below the least normal number may have lost bits that count. Sums are joined in f64,
 * whose range holds 2^31 squares of f32. */
struct joined_squares : squares<double> {
    static __device__ __forceinline__ float neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(float (&x)[COUNT], uint32_t, uint32_t,
                                                    enum reduce_op)
    {
        float each[COUNT];
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            each[i] = x[i] * x[i];
        const float total = sum_pairwise(each);
        if (total >= 0x1p-90f && total <= 0x1p127f)
            return {total};
        double wide = 0;
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            wide += (double)x[i] * (double)x[i];
        return {wide};
    }
};

/* norm2 of f64. Elements that are large are multiplied by 1 / STEP before they are squared, and
 * elements whose squares would be subnormal by STEP; the level of a state says which. All factors
 * are powers of two, and make no rounding error: a result that plain sums would hold has the same
 * bits. At most 2^31 elements are added, so sums of a level stay in range. When states of two
 * levels are added, what is lost of the lower one is negligible beside the least sum of the higher
 * one. After E. Anderson, "Algorithm 978: Safe Scaling in the Level 1 BLAS" (2017). */
struct scaled_squares {
    static constexpr bool exact = false;
    static constexpr double STEP = 0x1p600, INVERSE = 1 / STEP;
    /* The greatest element of level 0, and the least. */
    static constexpr double GREAT = 0x1p480;
    static constexpr double LEAST = 0x1p-400;
    struct state {
        double value;
        int32_t level; /* 1: of elements / STEP; 0: of elements; -1: of elements * STEP */
    };
    static __device__ __forceinline__ state none()
    {
        return {0, -1};
    }
    static __device__ __forceinline__ int32_t level_of(double magnitude)
    {
        return magnitude > GREAT ? 1 : magnitude < LEAST ? -1 : 0;
    }
    static __device__ __forceinline__ state one(double x, uint32_t, enum reduce_op)
    {
        const int32_t level = level_of(fabs(x));
        x = level == 0 ? x : x * (level > 0 ? INVERSE : STEP);
        return {x * x, level};
    }
    static __device__ __forceinline__ double neutral(enum reduce_op)
    {
        return 0;
    }
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(double (&x)[COUNT], uint32_t, uint32_t,
                                                    enum reduce_op)
    {
        double most = fabs(x[0]);
#pragma unroll
        for (unsigned i = 1; i < COUNT; i++)
            most = fmax(most, fabs(x[i]));
        const int32_t level = level_of(most);
        if (level != 0) {
            const double factor = level > 0 ? INVERSE : STEP;
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                x[i] *= factor;
        }
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            x[i] *= x[i];
        return {sum_pairwise(x), level};
    }
    /* The value of a state at a level that is not below its own. Infinity has the highest level. */
    static __device__ __forceinline__ double value_at(int32_t level, state s)
    {
        const double factor = level - s.level == 1 ? INVERSE : 0;
        return level == s.level ? s.value : s.value * factor * factor;
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        const int32_t level = a.level > b.level ? a.level : b.level;
        return {value_at(level, a) + value_at(level, b), level};
    }
    static __device__ __forceinline__ void finish(const struct reduce_problem &p, state s,
                                                  uint64_t i)
    {
        const double value = sqrt(s.value);
        store(p.out, s.level == 0 ? value : value * (s.level > 0 ? STEP : INVERSE), p.y, i);
    }
};

/* max, min and argmax: the greatest element and its place. For min, the order of elements is
 * reversed. NaN is greater than all numbers. A place of UINT32_MAX: there is no element. */
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
        return {op == REDUCE_MIN ? reversed(x) : x, place};
    }
    static __device__ __forceinline__ W neutral(enum reduce_op op)
    {
        W least;
        if constexpr (std::is_integral<W>::value)
            least = (W)(1u << (8 * sizeof(W) - 1));
        else
            least = W(-CUDART_INF);
        return op == REDUCE_MIN ? reversed(least) : least;
    }
    /* The place is right for argmax only, which alone needs it. */
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(W (&x)[COUNT], uint32_t place, uint32_t step,
                                                    enum reduce_op op)
    {
        if (op == REDUCE_MIN) {
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++)
                x[i] = reversed(x[i]);
        }
        W top = x[0];
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
        return {top, place + first * step};
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
    static __device__ __forceinline__ void finish(const struct reduce_problem &p, state s,
                                                  uint64_t i)
    {
        if (p.op == REDUCE_ARGMAX)
            ((int32_t *)p.y)[i] = (int32_t)s.place;
        else
            store(p.out, p.op == REDUCE_MIN ? reversed(s.value) : s.value, p.y, i);
    }
};

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
    static __device__ __forceinline__ W neutral(enum reduce_op)
    {
        return W(-CUDART_INF);
    }
    /* If the greatest element is infinite, it is the result (finish), whatever the total. */
    template <unsigned COUNT>
    static __device__ __forceinline__ state several(W (&x)[COUNT], uint32_t, uint32_t,
                                                    enum reduce_op)
    {
        W top = x[0];
#pragma unroll
        for (unsigned i = 1; i < COUNT; i++)
            top = greater_or_nan(top, x[i]);
        const W from = isinf(top) ? 0 : top;
#pragma unroll
        for (unsigned i = 0; i < COUNT; i++)
            x[i] = exp(x[i] - from);
        return {top, sum_pairwise(x)};
    }
    static __device__ __forceinline__ state both(state a, state b)
    {
        const bool first = is_nan(a.most) || a.most > b.most;
        const state greater = first ? a : b, other = first ? b : a;
        const W factor = other.most == greater.most ? W(1) : exp(other.most - greater.most);
        return {greater.most, greater.total + other.total * factor};
    }
    static __device__ __forceinline__ void finish(const struct reduce_problem &p, state s,
                                                  uint64_t i)
    {
        store(p.out, isinf(s.most) ? s.most : s.most + log(s.total), p.y, i);
    }
};

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

/* The place of result i in Y. */
static __device__ __forceinline__ uint64_t place_of(const struct reduce_problem &p, uint64_t i)
{
    return i / p.y_width * p.y_leading + i % p.y_width;
}

/* norm2 of elements of type T. */
template <typename T>
using squares_of = std::conditional_t<
    std::is_same<T, __half>::value, squares<float>,
    std::conditional_t<std::is_same<T, double>::value, scaled_squares, joined_squares>>;

/* Calls f with an element of type T and the struct of an operation. */
template <typename T, typename F> static enum gemmd_error with_operation(enum reduce_op op, F f)
{
    using W = typename wide_of<T>::type;
    switch (op) {
    case REDUCE_SUM:
    case REDUCE_MEAN:
        return f(T(), sum<W>());
    case REDUCE_MAX:
    case REDUCE_MIN:
    case REDUCE_ARGMAX:
        return f(T(), most<W>());
    default:
        if constexpr (std::is_integral<T>::value)
            return GEMMD_ERR_UNSUPPORTED;
        else if (op == REDUCE_NORM2)
            return f(T(), squares_of<T>());
        else
            return f(T(), logsumexp<W>());
    }
}

/* Calls f with an element and the operation of a problem, and returns what f returns. Returns
 * GEMMD_ERR_UNSUPPORTED for types that are not offered. */
template <typename F> static enum gemmd_error with_types(const struct reduce_problem &p, F f)
{
    switch (p.dtype) {
    case GEMMD_F64:
        return with_operation<double>(p.op, f);
    case GEMMD_F32:
        return with_operation<float>(p.op, f);
    case GEMMD_F16:
        return with_operation<__half>(p.op, f);
    case GEMMD_BF16:
        return with_operation<__nv_bfloat16>(p.op, f);
    case GEMMD_I8:
        return with_operation<int8_t>(p.op, f);
    case GEMMD_I32:
        return with_operation<int32_t>(p.op, f);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}

} // namespace reduce

#endif
