/*
 * parts.cuh - an f32 number in three parts of bf16.
 *
 * Each part is what is left of the number, rounded to bf16: 8 bits and a sign each, together the 24
 * bits of an f32 exactly, and each at most 2^-9 of the one before. Numbers are multiplied by 2^16
 * first, so that the last bit of the smallest one is one that bf16 has. A number that is infinite,
 * no number, or too large for that makes every sum that it is in infinite or no number, which is
 * how the kernels know it.
 */
#ifndef KERNELS_CUDA_MOVE_PARTS_CUH
#define KERNELS_CUDA_MOVE_PARTS_CUH

#include <cuda_bf16.h>
#include <stdint.h>
#include <string.h>

namespace split_parts
{

constexpr int PARTS = 3;

__device__ __forceinline__ uint32_t rounded_pair(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

__device__ __forceinline__ float low_of(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ float high_of(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000);
}

/* Two numbers; of each part, the first number's in the low half. */
__device__ __forceinline__ void split(float low, float high, uint32_t (&parts)[PARTS])
{
    low *= 0x1p16f;
    high *= 0x1p16f;
    parts[0] = rounded_pair(low, high);
    low -= low_of(parts[0]);
    high -= high_of(parts[0]);
    parts[1] = rounded_pair(low, high);
    parts[2] = rounded_pair(low - low_of(parts[1]), high - high_of(parts[1]));
}

} // namespace split_parts

#endif
