/*
 * vector.cuh - elements of f32, f16 and bf16 that a thread loads 16 bytes at a time and widens to
 * f32, and the sum of a thread's numbers.
 */
#ifndef KERNELS_CUDA_VECTOR_CUH
#define KERNELS_CUDA_VECTOR_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

namespace vectors
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
template <unsigned COUNT> static __device__ __forceinline__ float sum_pairwise(float (&x)[COUNT])
{
#pragma unroll
    for (unsigned half = COUNT / 2; half > 0; half /= 2)
#pragma unroll
        for (unsigned i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

/* Elements in registers: indices are known to the compiler. */
template <typename T> struct vector {
    static constexpr unsigned WIDTH = 16 / sizeof(T);
    union {
        uint4 bits;
        uint32_t words[4];
        T elements[WIDTH];
    };
    __device__ vector()
    {
    }
    __device__ __forceinline__ float operator[](unsigned i) const
    {
        if constexpr (sizeof(T) == 4) {
            return elements[i];
        } else {
            const float2 both = widen_pair(words[i / 2], T());
            return i % 2 == 0 ? both.x : both.y;
        }
    }
};

} // namespace vectors

#endif
