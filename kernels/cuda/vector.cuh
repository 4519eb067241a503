/*
 * vector.cuh - elements that a thread loads 16 bytes at a time and widens to the type in which it
 * computes, and the sum of a thread's numbers.
 */
#ifndef KERNELS_CUDA_VECTOR_CUH
#define KERNELS_CUDA_VECTOR_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace vectors
{

/* The type in which elements are computed: f32 for f32, f16 and bf16. Integers keep their values,
 * and i8 has room for the negative of each. */
template <typename T> struct wide_of {
    using type = float;
};
template <> struct wide_of<double> {
    using type = double;
};
template <> struct wide_of<int8_t> {
    using type = short;
};
template <> struct wide_of<int32_t> {
    using type = int;
};

static __device__ __forceinline__ double widen(double x)
{
    return x;
}
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
static __device__ __forceinline__ short widen(int8_t x)
{
    return x;
}
static __device__ __forceinline__ int widen(int32_t x)
{
    return x;
}
/* The two elements of a word of memory, of the type of the second argument. This takes fewer
 * instructions than widening one after the other. */
static __device__ __forceinline__ float2 widen_pair(uint32_t word, __half)
{
    __half2 both;
    memcpy(&both, &word, sizeof both);
    return __half22float2(both);
}
static __device__ __forceinline__ float2 widen_pair(uint32_t word, __nv_bfloat16)
{
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000));
}

/* The sum of a power of two of elements, as a pairwise tree. `x` is overwritten. */
template <typename W, unsigned COUNT>
static __device__ __forceinline__ W sum_pairwise(W (&x)[COUNT])
{
#pragma unroll
    for (unsigned half = COUNT / 2; half > 0; half /= 2)
#pragma unroll
        for (unsigned i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

/* The type by which a vector is loaded. Elements of f64 are loaded as such: taking words apart
 * within the condition around a load would wait for each load before the next is issued. */
template <typename T> struct line_of {
    using type = uint4;
};
template <> struct line_of<double> {
    using type = double2;
};

/* Elements in registers: indices are known to the compiler. */
template <typename T> struct vector {
    static constexpr unsigned WIDTH = 16 / sizeof(T);
    using line = typename line_of<T>::type;
    union {
        line bits;
        uint32_t words[4];
        T elements[WIDTH];
    };
    __device__ vector()
    {
    }
    __device__ __forceinline__ typename wide_of<T>::type operator[](unsigned i) const
    {
        if constexpr (sizeof(T) == 2) {
            const float2 both = widen_pair(words[i / 2], T());
            return i % 2 == 0 ? both.x : both.y;
        } else {
            return widen(elements[i]);
        }
    }
};

} // namespace vectors

#endif
