/*
 * unpack.cuh - packed weights (proto/packed.h) in registers: integers of 4 and 8 bits become
 * numbers of A's type, less their zero point, which is exact.
 *
 * Nibbles, and bytes for f16, are put into the low bits of 128 (bf16) or 1024 (f16), from which 128
 * or 1024 and the zero point are subtracted (Kim et al., "Who Says Elephants Can't Run", 2022).
 * bf16 has too few bits for that with bytes, which go through f32.
 */
#ifndef KERNELS_CUDA_PACKED_UNPACK_CUH
#define KERNELS_CUDA_PACKED_UNPACK_CUH

#include "kernels/cuda/epilogue.cuh"

namespace packed
{

template <typename T> struct exact;

template <> struct exact<__half> {
    using pair = __half2;
    static constexpr uint32_t magic = 0x64006400; /* 1024 twice */
    static constexpr float offset = 1024;
    static __device__ __forceinline__ pair both(float x)
    {
        return __float2half2_rn(x);
    }
};

template <> struct exact<__nv_bfloat16> {
    using pair = __nv_bfloat162;
    static constexpr uint32_t magic = 0x43004300; /* 128 twice */
    static constexpr float offset = 128;
    static __device__ __forceinline__ pair both(float x)
    {
        return __float2bfloat162_rn(x);
    }
};

/* The difference of two pairs of numbers as the bits of a register. */
template <typename Pair>
static __device__ __forceinline__ uint32_t difference(uint32_t pair, Pair zero)
{
    const Pair result = __hsub2(*reinterpret_cast<const Pair *>(&pair), zero);
    return *reinterpret_cast<const uint32_t *>(&result);
}

/* The lowest nibbles of both halves of a word in the low bits of `magic`. The compiler makes two
 * instructions of `(word & 0x000f000f) | magic`, since an instruction has room for one constant. */
static __device__ __forceinline__ uint32_t nibbles_in(uint32_t word, uint32_t magic)
{
    uint32_t pair;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(pair) : "r"(word), "n"(0x000f000f), "r"(magic));
    return pair;
}

/* The zero points of a thread's two columns, as what is subtracted from its numbers. */
template <typename T, int BITS> struct zero_points {
    typename exact<T>::pair of[2];
    __device__ __forceinline__ void set(int column, int zero)
    {
        of[column] = exact<T>::both(exact<T>::offset + (float)zero);
    }
};

template <> struct zero_points<__nv_bfloat16, 8> {
    float of[2];
    __device__ __forceinline__ void set(int column, int zero)
    {
        of[column] = 8388608.0f + (float)zero; /* 2^23, whose last bit is 1 */
    }
};

/* The four registers of the operand A of mma.m16n8k16, or of a warp's operand A of wgmma, for one
 * tile of 16 steps of the weights in a thread's place of a block. */
template <typename T>
static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const zero_points<T, 4> &zeros, uint32_t (&a)[4])
{
    const uint32_t word = words[tile];
#pragma unroll
    for (unsigned r = 0; r < 4; r++)
        a[r] = difference(nibbles_in(word >> 4 * r, exact<T>::magic), zeros.of[r % 2]);
}

static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const zero_points<__half, 8> &zeros, uint32_t (&a)[4])
{
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t bytes = __byte_perm(words[2 * tile + r / 2], exact<__half>::magic,
                                           r % 2 == 0 ? 0x5250 : 0x5351);
        a[r] = difference(bytes, zeros.of[r % 2]);
    }
}

static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const zero_points<__nv_bfloat16, 8> &zeros,
                                              uint32_t (&a)[4])
{
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t word = words[2 * tile + r / 2];
        const float low = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 | r % 2));
        const float high = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 | r % 2 + 2));
        const __nv_bfloat162 both =
            __floats2bfloat162_rn(low - zeros.of[r % 2], high - zeros.of[r % 2]);
        a[r] = *reinterpret_cast<const uint32_t *>(&both);
    }
}

} // namespace packed

#endif
