/*
 * parts.cuh - the decomposition of an f32 number into three parts of bf16.
 *
 * The first part is the number rounded to bf16. Each further part is the rest that the parts before
 * leave, rounded to bf16. A part has 8 bits and a sign, so the three parts together have the 24
 * bits of an f32 exactly. Each part is at most 2^-9 of the part before it. Numbers are first
 * multiplied by 2^16, so that bf16 can represent the last bit of the smallest f32. A number that is
 * infinite, NaN, or too large to be multiplied makes every sum that contains it infinite or NaN,
 * and the kernels compute these sums again without parts.
 */
#ifndef KERNELS_CUDA_MOVE_PARTS_CUH
#define KERNELS_CUDA_MOVE_PARTS_CUH

#include <cuda_bf16.h>
#include <stdint.h>
#include <string.h>

namespace f32_parts
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

/* Decomposes two numbers. parts[i] has part i of `low` in its low half and of `high` in its high
 * half. */
__device__ __forceinline__ void decompose(float low, float high, uint32_t (&parts)[PARTS])
{
    low *= 0x1p16f;
    high *= 0x1p16f;
    parts[0] = rounded_pair(low, high);
    low -= low_of(parts[0]);
    high -= high_of(parts[0]);
    parts[1] = rounded_pair(low, high);
    parts[2] = rounded_pair(low - low_of(parts[1]), high - high_of(parts[1]));
}

} // namespace f32_parts

#endif
