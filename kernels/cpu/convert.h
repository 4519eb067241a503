/*
 * convert.h - conversions between the element types of operands and results and the types of
 * computation.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even. A value that is too large becomes
 * infinity, and NaN stays NaN, made quiet. f8_e4m3 has no infinity, and no function narrows to it.
 * Pure functions, any thread.
 */
#ifndef KERNELS_CPU_CONVERT_H
#define KERNELS_CPU_CONVERT_H

#include <gemmd/dtypes.h>
#include <stdint.h>
#include <string.h>

static inline float convert_bits_to_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t convert_f32_to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float convert_bf16_to_f32(uint16_t bits)
{
    uint32_t quiet = (bits & 0x7fffu) > 0x7f80u ? 0x40u : 0u;
    return convert_bits_to_f32(((uint32_t)bits | quiet) << 16);
}

static inline float convert_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) { /* infinity or NaN */
        uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
        return convert_bits_to_f32(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
    }
    if (magnitude < 0x400u) /* zero or subnormal: a multiple of 2^-24 */
        return convert_bits_to_f32(sign | convert_f32_to_bits((float)magnitude * 0x1p-24f));
    return convert_bits_to_f32(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

static inline float convert_f8_e4m3_to_f32(uint8_t bits)
{
    /* With its exponent where f32 has its own, the number is 2^120 times too small, and the product
     * is exact; subnormal numbers become normal on the way. */
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t magnitude = bits & 0x7fu;
    uint32_t wide = convert_f32_to_bits(convert_bits_to_f32(magnitude << 20) * 0x1p120f);
    return convert_bits_to_f32(sign | (magnitude == 0x7fu ? 0x7fc00000u : wide));
}

uint16_t convert_f32_to_bf16(float value);
uint16_t convert_f32_to_f16(float value);

/* Widens `count` elements of `dtype` to dtype_accumulator(dtype). `to` must not overlap `from`, and
 * both are aligned for their types. */
void convert_widen(enum gemmd_dtype dtype, const void *from, void *to, uint64_t count);

/* The same, but returns where the widened elements are: `from`, if that is their type already, or
 * `to`. */
static inline const void *convert_widened(enum gemmd_dtype dtype, const void *from, void *to,
                                          uint64_t count)
{
    if (dtype == GEMMD_F32 || dtype == GEMMD_F64 || dtype == GEMMD_I32)
        return from;
    convert_widen(dtype, from, to, count);
    return to;
}

/* Narrows `count` elements of dtype_accumulator(out) to `out`, for every type that a result can
 * have. */
void convert_narrow(enum gemmd_dtype out, const void *from, void *to, uint64_t count);

/* Widens `count` elements of any type to f64, exactly. */
void convert_to_f64(enum gemmd_dtype dtype, const void *from, double *to, uint64_t count);

#endif
