#include "kernels/cpu/microkernel.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __x86_64__
#include <immintrin.h>

/* The functions of a microkernel whose elements hold some steps of k. DOT(sums, b, a) adds the
 * products of the steps of the elements `a`, the same in all lanes, and `b`; END(left, right, a)
 * corrects the sums of all rows after the last step. The number of rows is a constant in each call
 * of NAME_rows, so that the sums are registers. */
#define NARROW_MICROKERNEL(NAME, TARGET, ROWS, VECTOR, LOAD, STORE, DOT, END)                      \
    TARGET static inline __attribute__((always_inline)) void NAME##_rows(                          \
        uint64_t depth, const int32_t *a, const int32_t *b, int32_t *c, uint64_t ld,               \
        const int rows)                                                                            \
    {                                                                                              \
        enum { LANES = sizeof(VECTOR) / sizeof(int32_t) };                                         \
        const int32_t *const panel = a;                                                            \
        VECTOR left[ROWS], right[ROWS];                                                            \
        _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                    \
        {                                                                                          \
            left[i] = LOAD((const void *)(c + (uint64_t)i * ld));                                  \
            right[i] = LOAD((const void *)(c + (uint64_t)i * ld + LANES));                         \
        }                                                                                          \
        for (uint64_t p = 0; p < depth; p++, a += (ROWS), b += 2 * LANES) {                        \
            const VECTOR b_left = LOAD((const void *)b);                                           \
            const VECTOR b_right = LOAD((const void *)(b + LANES));                                \
            _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                \
            {                                                                                      \
                left[i] = DOT(left[i], b_left, a[i]);                                              \
                right[i] = DOT(right[i], b_right, a[i]);                                           \
            }                                                                                      \
        }                                                                                          \
        END(left, right, panel, depth, rows);                                                      \
        _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                    \
        {                                                                                          \
            STORE((void *)(c + (uint64_t)i * ld), left[i]);                                        \
            STORE((void *)(c + (uint64_t)i * ld + LANES), right[i]);                               \
        }                                                                                          \
    }                                                                                              \
    TARGET static void NAME##_run(uint64_t depth, const void *a, const void *b, void *tile,        \
                                  uint64_t ld, uint64_t used)                                      \
    {                                                                                              \
        enum { PART = (ROWS) % 3 == 0 ? (ROWS) / 3 : (ROWS) / 4 };                                 \
        if (used > (ROWS)-PART)                                                                    \
            NAME##_rows(depth, a, b, tile, ld, ROWS);                                              \
        else if (used > PART)                                                                      \
            NAME##_rows(depth, a, b, tile, ld, (ROWS)-PART);                                       \
        else if (used > 1)                                                                         \
            NAME##_rows(depth, a, b, tile, ld, PART);                                              \
        else                                                                                       \
            NAME##_rows(depth, a, b, tile, ld, 1);                                                 \
    }

#define NO_END(left, right, a, depth, rows) ((void)(a))

/* ---- pairs of i16: 16 bytes, which every x86-64 has, and 32 ---- */

#define LOAD_128(from) _mm_loadu_si128((const __m128i_u *)(from))
#define STORE_128(to, x) _mm_storeu_si128((__m128i_u *)(to), x)
#define DOT_I16_128(sums, b, a) _mm_add_epi32(sums, _mm_madd_epi16(b, _mm_set1_epi32(a)))
NARROW_MICROKERNEL(i16_base, , 4, __m128i, LOAD_128, STORE_128, DOT_I16_128, NO_END)

#define LOAD_256(from) _mm256_loadu_si256((const __m256i_u *)(from))
#define STORE_256(to, x) _mm256_storeu_si256((__m256i_u *)(to), x)
#define DOT_I16_256(sums, b, a) _mm256_add_epi32(sums, _mm256_madd_epi16(b, _mm256_set1_epi32(a)))
NARROW_MICROKERNEL(i16_avx2, __attribute__((target("avx2"))), 6, __m256i, LOAD_256, STORE_256,
                   DOT_I16_256, NO_END)

/* ---- groups of four i8. The instruction takes unsigned numbers on one side: those of B have 128
 * added, and 128 times the sum of a row of A is subtracted from the sums in the end. ---- */

#define VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define LOAD_512(from) _mm512_loadu_si512(from)
#define STORE_512(to, x) _mm512_storeu_si512(to, x)
#define DOT_I8_512(sums, b, a) _mm512_dpbusd_epi32(sums, b, _mm512_set1_epi32(a))
enum { VNNI_ROWS = 12 };

/* 128 times the sum of each row of a panel. */
VNNI_TARGET static inline __attribute__((always_inline)) void
vnni_excess(const int32_t *a, uint64_t depth, int32_t excess[16])
{
    const __m512i offset = _mm512_set1_epi8((char)-128); /* 128 as an unsigned number */
    __m512i sums = _mm512_setzero_si512();
    for (uint64_t p = 0; p < depth; p++, a += VNNI_ROWS)
        sums = _mm512_dpbusd_epi32(sums, offset, _mm512_maskz_loadu_epi32(0xfff, a));
    _mm512_storeu_si512(excess, sums);
}

#define END_I8_512(left, right, a, depth, rows)                                                    \
    int32_t excess[16];                                                                            \
    vnni_excess(a, depth, excess);                                                                 \
    _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                        \
    {                                                                                              \
        left[i] = _mm512_sub_epi32(left[i], _mm512_set1_epi32(excess[i]));                         \
        right[i] = _mm512_sub_epi32(right[i], _mm512_set1_epi32(excess[i]));                       \
    }
NARROW_MICROKERNEL(i8_vnni, VNNI_TARGET, VNNI_ROWS, __m512i, LOAD_512, STORE_512, DOT_I8_512,
                   END_I8_512)

/* ---- pairs of bf16 ---- */

#define BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define LOAD_PS(from) _mm512_loadu_ps(from)
#define STORE_PS(to, x) _mm512_storeu_ps(to, x)
#define DOT_BF16_512(sums, b, a)                                                                   \
    _mm512_dpbf16_ps(sums, (__m512bh)(b), (__m512bh)_mm512_set1_epi32(a))
NARROW_MICROKERNEL(bf16_dot, BF16_TARGET, 12, __m512, LOAD_PS, STORE_PS, DOT_BF16_512, NO_END)

/* The same products in f32, which are exact, added one after another. */
#define ODD(x) _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)))
#define EVEN(x) _mm512_castsi512_ps(_mm512_slli_epi32(x, 16))
#define DOT_BF16_F32(sums, b, a)                                                                   \
    _mm512_fmadd_ps(EVEN(_mm512_set1_epi32(a)), EVEN(_mm512_castps_si512(b)),                      \
                    _mm512_fmadd_ps(ODD(_mm512_set1_epi32(a)), ODD(_mm512_castps_si512(b)), sums))
NARROW_MICROKERNEL(bf16_f32, BF16_TARGET, 12, __m512, LOAD_PS, STORE_PS, DOT_BF16_F32, NO_END)

static bool has_vnni(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool has_bf16(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512bf16");
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_sse2(void)
{
    return true;
}

static const struct {
    struct microkernel micro;
    enum gemmd_dtype dtype;
    bool (*usable)(void);
} narrow[] = {
    {{.rows = VNNI_ROWS, .columns = 32, .steps = 4, .flip = 0x80808080, .run = i8_vnni_run},
     GEMMD_I8,
     has_vnni},
    {{.rows = 6, .columns = 16, .steps = 2, .run = i16_avx2_run}, GEMMD_I8, has_avx2},
    {{.rows = 4, .columns = 8, .steps = 2, .run = i16_base_run}, GEMMD_I8, has_sse2},
    {{.rows = 12, .columns = 32, .steps = 2, .run = bf16_dot_run, .run_tiny = bf16_f32_run},
     GEMMD_BF16,
     has_bf16},
};
#endif

const struct microkernel *microkernel_narrow(enum gemmd_dtype dtype, uint32_t number)
{
#ifdef __x86_64__
    for (uint32_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
        if (narrow[i].dtype == dtype && narrow[i].usable() && number-- == 0)
            return &narrow[i].micro;
#else
    (void)dtype;
    (void)number;
#endif
    return NULL;
}
