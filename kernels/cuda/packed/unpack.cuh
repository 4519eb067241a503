/*
 * unpack.cuh - packed weights (proto/packed.h) in registers: integers of 4 and 8 bits, less their
 * zero point, and numbers of e2m1 and e4m3 become numbers of A's type, which is exact.
 *
 * Nibbles of integers, and bytes for f16, are put into the low bits of 128 (bf16) or 1024 (f16),
 * from which 128 or 1024 and the zero point are subtracted (Kim et al., "Who Says Elephants Can't
 * Run", 2022). bf16 has too few bits for that with bytes, which go through f32.
 *
 * The bits of e2m1 below the sign become the lowest bits of an exponent of A's type and its highest
 * bit of the significand. A multiplication by a power of two then corrects the exponent. Numbers
 * below 1 are subnormal before that multiplication. e4m3 becomes f16 by one instruction (PTX ISA:
 * cvt.rn.f16x2.e4m3x2), which keeps NaN, and bf16 from there by f32.
 */
#ifndef KERNELS_CUDA_PACKED_UNPACK_CUH
#define KERNELS_CUDA_PACKED_UNPACK_CUH

#include <cuda_fp8.h>

#include "kernels/cuda/epilogue.cuh"

namespace packed
{

/* What weights are. SCALED: weights are multiplied by their scales in A's type, instead of sums in
 * f32. INTEGER: weights have zero points. SHORT: groups have 16 or 32 steps, and no group has all
 * of a longer k. */
template <int BITS_OF_INTEGER> struct integer {
    enum { BITS = BITS_OF_INTEGER, INTEGER = 1, SHORT = 0, SCALED = 0 };
};
struct e4m3 {
    enum { BITS = 8, INTEGER = 0, SHORT = 0, SCALED = 0 };
};
struct e2m1 {
    enum { BITS = 4, INTEGER = 0, SHORT = 1, SCALED = 0 };
};
/* Products of e2m1 and a scale are exact in A's type: in bf16 with the scales of e8m0 and of e4m3,
 * in f16 with those of e4m3. */
struct scaled_e2m1 {
    enum { BITS = 4, INTEGER = 0, SHORT = 1, SCALED = 1 };
};

template <typename T> struct exact;

template <> struct exact<__half> {
    using pair = __half2;
    static constexpr uint32_t magic = 0x64006400; /* 1024 twice */
    static constexpr float offset = 1024;
    static constexpr unsigned exponent_bits = 5;
    static constexpr float of_e2m1 = 0x1p14f; /* corrects the exponent */
    static __device__ __forceinline__ pair both(float x)
    {
        return __float2half2_rn(x);
    }
    static __device__ __forceinline__ pair both_of_bf16(uint16_t bits)
    {
        return both(__uint_as_float((uint32_t)bits << 16));
    }
};

template <> struct exact<__nv_bfloat16> {
    using pair = __nv_bfloat162;
    static constexpr uint32_t magic = 0x43004300; /* 128 twice */
    static constexpr float offset = 128;
    static constexpr unsigned exponent_bits = 8;
    static constexpr float of_e2m1 = 0x1p126f;
    static __device__ __forceinline__ pair both(float x)
    {
        return __float2bfloat162_rn(x);
    }
    static __device__ __forceinline__ pair both_of_bf16(uint16_t bits)
    {
        return __bfloat162bfloat162(__ushort_as_bfloat16(bits));
    }
};

/* The difference and the product of two pairs of numbers as the bits of a register. */
template <typename Pair>
static __device__ __forceinline__ uint32_t difference(uint32_t pair, Pair zero)
{
    const Pair result = __hsub2(*reinterpret_cast<const Pair *>(&pair), zero);
    return *reinterpret_cast<const uint32_t *>(&result);
}
template <typename Pair>
static __device__ __forceinline__ uint32_t product(uint32_t pair, Pair factor)
{
    const Pair result = __hmul2(*reinterpret_cast<const Pair *>(&pair), factor);
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

/* What changes the weights of a thread's two columns, besides their type: zero points of integers,
 * as what is subtracted; the scales of scaled_e2m1. */
template <typename T, class W> struct changes {
};

template <typename T, int BITS> struct changes<T, integer<BITS>> {
    typename exact<T>::pair of[2];
    __device__ __forceinline__ void set(int column, int zero)
    {
        of[column] = exact<T>::both(exact<T>::offset + (float)zero);
    }
};

template <> struct changes<__nv_bfloat16, integer<8>> {
    float of[2];
    __device__ __forceinline__ void set(int column, int zero)
    {
        of[column] = 8388608.0f + (float)zero; /* 2^23, whose last bit is 1 */
    }
};

template <typename T> struct changes<T, scaled_e2m1> {
    typename exact<T>::pair of[2];
    __device__ __forceinline__ void set(int column, uint16_t scale_of_bf16)
    {
        of[column] = exact<T>::both_of_bf16(scale_of_bf16);
    }
};

/* The four registers of the operand A of mma.m16n8k16, or of a warp's operand A of wgmma, for one
 * tile of 16 steps of the weights in a thread's place of a block. */
template <typename T>
static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<T, integer<4>> &zeros, uint32_t (&a)[4])
{
    const uint32_t word = words[tile];
#pragma unroll
    for (unsigned r = 0; r < 4; r++)
        a[r] = difference(nibbles_in(word >> 4 * r, exact<T>::magic), zeros.of[r % 2]);
}

static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<__half, integer<8>> &zeros,
                                              uint32_t (&a)[4])
{
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t bytes = __byte_perm(words[2 * tile + r / 2], exact<__half>::magic,
                                           r % 2 == 0 ? 0x5250 : 0x5351);
        a[r] = difference(bytes, zeros.of[r % 2]);
    }
}

static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<__nv_bfloat16, integer<8>> &zeros,
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

template <typename T>
static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<T, e2m1> &, uint32_t (&a)[4])
{
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        const uint32_t highest = words[tile] << 4 * (3 - r); /* nibbles of both halves */
        const uint32_t magnitudes = (highest & 0x70007000) >> (exact<T>::exponent_bits - 2);
        a[r] = product((highest & 0x80008000) | magnitudes, exact<T>::both(exact<T>::of_e2m1));
    }
}

template <typename T>
static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<T, scaled_e2m1> &scales,
                                              uint32_t (&a)[4])
{
    unpack(words, tile, changes<T, e2m1>(), a);
#pragma unroll
    for (unsigned r = 0; r < 4; r++)
        a[r] = product(a[r], scales.of[r % 2]);
}

/* Two numbers of e4m3 in the type of A. */
template <typename T> static __device__ __forceinline__ uint32_t from_e4m3(uint16_t pair)
{
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
    if constexpr (std::is_same<T, __half>::value)
        return *reinterpret_cast<const uint32_t *>(&raw);
    const __nv_bfloat162 both = __float22bfloat162_rn(__half22float2(__half2(raw)));
    return *reinterpret_cast<const uint32_t *>(&both);
}

template <typename T>
static __device__ __forceinline__ void unpack(const uint32_t (&words)[4], unsigned tile,
                                              const changes<T, e4m3> &, uint32_t (&a)[4])
{
#pragma unroll
    for (unsigned r = 0; r < 4; r += 2) {
        const uint32_t pairs = __byte_perm(words[2 * tile + r / 2], 0, 0x3120);
        a[r] = from_e4m3<T>((uint16_t)pairs);
        a[r + 1] = from_e4m3<T>((uint16_t)(pairs >> 16));
    }
}

} // namespace packed

#endif
