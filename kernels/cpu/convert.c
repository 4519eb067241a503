#include "kernels/cpu/convert.h"

#include "proto/dtype.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

uint16_t convert_f32_to_bf16(float value)
{
    uint32_t bits = convert_f32_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

uint16_t convert_f32_to_f16(float value)
{
    uint32_t bits = convert_f32_to_bits(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16; what rounds up to it is carried there below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 the last place of f16 is 2^-24, which is that of an f32 in [0.5, 1): adding
         * 0.5 rounds there, and the sum's low bits are the result. */
        float sum = convert_bits_to_f32(magnitude) + 0.5f;
        return (uint16_t)(sign | (convert_f32_to_bits(sum) - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - ((127u - 15u) << 23)) >> 13);
}

static void widen_f16(const uint16_t *from, float *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = convert_f16_to_f32(from[i]);
}

static void narrow_f16(const float *from, uint16_t *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = convert_f32_to_f16(from[i]);
}

#ifdef __x86_64__
/* The processor's own conversions, bit for bit those above. */
__attribute__((target("avx,f16c"))) static void widen_f16_f16c(const uint16_t *from, float *to,
                                                               uint64_t count)
{
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(from + i))));
    for (; i < count; i++)
        to[i] = _cvtsh_ss(from[i]);
}

__attribute__((target("avx,f16c"))) static void narrow_f16_f16c(const float *from, uint16_t *to,
                                                                uint64_t count)
{
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i_u *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
    for (; i < count; i++)
        to[i] = _cvtss_sh(from[i], 0);
}

static bool has_f16c(void)
{
    /* Every processor with AVX2 has F16C too, a name that clang 14 does not know. */
    return __builtin_cpu_supports("avx2");
}
#else
static bool has_f16c(void)
{
    return false;
}
#define widen_f16_f16c widen_f16
#define narrow_f16_f16c narrow_f16
#endif

void convert_widen(enum gemmd_dtype dtype, const void *from, void *to, uint64_t count)
{
    switch (dtype) {
    case GEMMD_F16:
        (has_f16c() ? widen_f16_f16c : widen_f16)(from, to, count);
        break;
    case GEMMD_BF16: {
        const uint16_t *narrow = from;
        float *wide = to;
        for (uint64_t i = 0; i < count; i++)
            wide[i] = convert_bf16_to_f32(narrow[i]);
        break;
    }
    case GEMMD_F8_E4M3: {
        const uint8_t *narrow = from;
        float *wide = to;
        for (uint64_t i = 0; i < count; i++)
            wide[i] = convert_f8_e4m3_to_f32(narrow[i]);
        break;
    }
    case GEMMD_I8: {
        const int8_t *narrow = from;
        int32_t *wide = to;
        for (uint64_t i = 0; i < count; i++)
            wide[i] = narrow[i];
        break;
    }
    default:
        memcpy(to, from, count * dtype_size(dtype));
        break;
    }
}

void convert_narrow(enum gemmd_dtype out, const void *from, void *to, uint64_t count)
{
    switch (out) {
    case GEMMD_F16:
        (has_f16c() ? narrow_f16_f16c : narrow_f16)(from, to, count);
        break;
    case GEMMD_BF16: {
        const float *wide = from;
        uint16_t *narrow = to;
        for (uint64_t i = 0; i < count; i++)
            narrow[i] = convert_f32_to_bf16(wide[i]);
        break;
    }
    default:
        memcpy(to, from, count * dtype_size(out));
        break;
    }
}

void convert_to_f64(enum gemmd_dtype dtype, const void *from, double *to, uint64_t count)
{
    enum { CHUNK = 256 };
    union {
        float f32[CHUNK];
        int32_t i32[CHUNK];
    } wide = {.f32 = {0}};
    const bool integers = dtype_accumulator(dtype) == GEMMD_I32;
    const uint64_t size = dtype_size(dtype);

    if (dtype == GEMMD_F64) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    for (uint64_t done = 0; done < count; done += CHUNK) {
        const uint64_t now = count - done < CHUNK ? count - done : CHUNK;
        const char *source = (const char *)from + done * size;
        const float *floats = dtype == GEMMD_F32 ? (const float *)(const void *)source : wide.f32;
        if (dtype != GEMMD_F32)
            convert_widen(dtype, source, &wide, now);
        for (uint64_t i = 0; !integers && i < now; i++)
            to[done + i] = (double)floats[i];
        for (uint64_t i = 0; integers && i < now; i++)
            to[done + i] = (double)wide.i32[i];
    }
}
