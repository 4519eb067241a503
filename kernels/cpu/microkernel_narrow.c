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

/* The functions of a microkernel that read B where it is: NAME_columns multiplies the first `rows`
 * rows of `count` columns, some groups of VECTORS vectors at a time, and returns the column behind
 * the last one. READ(b, b_ld, right) joins the rows of B of one element of k to the vectors of a
 * group, and ORDER(sums) brings a group of sums to the order of these vectors, and back. The
 * numbers of rows and groups are constants in each call, so that the sums are registers. The rows
 * of B that are some elements ahead are fetched where so few columns of each are read that the
 * processor does not foresee it. */
#define NARROW_FEW(NAME, TARGET, ROWS, VECTOR, LOAD, STORE, DOT, ELEMENT, STEPS, VECTORS, READ,    \
                   ORDER)                                                                          \
    TARGET static inline __attribute__((always_inline)) uint64_t NAME##_columns(                   \
        uint64_t depth, const int32_t *a, const ELEMENT *b, uint64_t b_ld, int32_t *c,             \
        uint64_t ld, uint64_t first, uint64_t count, const int rows, const int groups)             \
    {                                                                                              \
        enum { LANES = sizeof(VECTOR) / sizeof(int32_t), WIDTH = (VECTORS)*LANES, AHEAD = 8 };     \
        const uint64_t width = (uint64_t)groups * WIDTH;                                           \
        for (; first + width <= count; first += width) {                                           \
            const int32_t *a_step = a;                                                             \
            const ELEMENT *b_step = b + first;                                                     \
            VECTOR sums[24];                                                                       \
            _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                \
                _Pragma("GCC unroll 8") for (int g = 0; g < groups; g++)                           \
            {                                                                                      \
                VECTOR *group = sums + (i * groups + g) * (VECTORS);                               \
                const int32_t *from = c + (uint64_t)i * ld + first + (uint64_t)g * WIDTH;          \
                _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++) group[v] =             \
                    LOAD((const void *)(from + v * LANES));                                        \
                ORDER(group);                                                                      \
            }                                                                                      \
            for (uint64_t p = 0; p < depth; p++, a_step += (ROWS), b_step += (STEPS)*b_ld) {       \
                if (groups * (VECTORS) <= 4)                                                       \
                    for (int s = 0; s < (STEPS); s++)                                              \
                        __builtin_prefetch(b_step +                                                \
                                           ((uint64_t)AHEAD * (STEPS) + (uint64_t)s) * b_ld);      \
                _Pragma("GCC unroll 8") for (int g = 0; g < groups; g++)                           \
                {                                                                                  \
                    VECTOR right[VECTORS];                                                         \
                    READ(b_step + (uint64_t)g * WIDTH, b_ld, right);                               \
                    _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                        \
                        _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++)                \
                    {                                                                              \
                        VECTOR *sum = sums + (i * groups + g) * (VECTORS) + v;                     \
                        *sum = DOT(*sum, right[v], a_step[i]);                                     \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 12") for (int i = 0; i < rows; i++)                                \
                _Pragma("GCC unroll 8") for (int g = 0; g < groups; g++)                           \
            {                                                                                      \
                VECTOR *group = sums + (i * groups + g) * (VECTORS);                               \
                int32_t *to = c + (uint64_t)i * ld + first + (uint64_t)g * WIDTH;                  \
                ORDER(group);                                                                      \
                _Pragma("GCC unroll 4") for (int v = 0; v < (VECTORS); v++)                        \
                    STORE((void *)(to + v * LANES), group[v]);                                     \
            }                                                                                      \
        }                                                                                          \
        return first;                                                                              \
    }

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

/* Four rows of 64 columns. Each vector has four columns of each 16. */
VNNI_TARGET static inline __attribute__((always_inline)) void
i8_read(const int8_t *b, uint64_t b_ld, __m512i right[4])
{
    const __m512i flip = _mm512_set1_epi8((char)-128);
    __m512i rows[4];
    for (uint64_t s = 0; s < 4; s++)
        rows[s] = _mm512_xor_si512(_mm512_loadu_si512(b + s * b_ld), flip);
    const __m512i low = _mm512_unpacklo_epi8(rows[0], rows[1]);
    const __m512i high = _mm512_unpackhi_epi8(rows[0], rows[1]);
    const __m512i next_low = _mm512_unpacklo_epi8(rows[2], rows[3]);
    const __m512i next_high = _mm512_unpackhi_epi8(rows[2], rows[3]);
    right[0] = _mm512_unpacklo_epi16(low, next_low);
    right[1] = _mm512_unpackhi_epi16(low, next_low);
    right[2] = _mm512_unpacklo_epi16(high, next_high);
    right[3] = _mm512_unpackhi_epi16(high, next_high);
}

/* Transposes the quarters of four vectors. */
VNNI_TARGET static inline __attribute__((always_inline)) void i8_order(__m512i x[4])
{
    const __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44);
    const __m512i b = _mm512_shuffle_i32x4(x[0], x[1], 0xee);
    const __m512i c = _mm512_shuffle_i32x4(x[2], x[3], 0x44);
    const __m512i d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    x[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    x[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}
NARROW_FEW(i8_vnni, VNNI_TARGET, VNNI_ROWS, __m512i, LOAD_512, STORE_512, DOT_I8_512, int8_t, 4, 4,
           i8_read, i8_order)

/* Subtracts the excess of some rows from their sums. */
static void subtract_excess(const int32_t excess[], uint64_t rows, uint64_t columns, int32_t *c,
                            uint64_t ld)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            c[i * ld + j] = (int32_t)((uint32_t)c[i * ld + j] - (uint32_t)excess[i]);
}

VNNI_TARGET static uint64_t i8_vnni_run_few(uint64_t depth, const void *a_panel, const void *b,
                                            uint64_t b_ld, void *c_tile, uint64_t ld, uint64_t rows,
                                            uint64_t columns)
{
    int32_t excess[16];
    uint64_t done = 0;
    for (uint64_t i = 0; i < rows; i += 4) { /* rows whose sums and operands fit in registers */
        const int32_t *a = (const int32_t *)a_panel + i;
        int32_t *c = (int32_t *)c_tile + i * ld;
        if (rows - i == 1) {
            done = i8_vnni_columns(depth, a, b, b_ld, c, ld, 0, columns, 1, 4);
            done = i8_vnni_columns(depth, a, b, b_ld, c, ld, done, columns, 1, 1);
        } else if (rows - i == 2) {
            done = i8_vnni_columns(depth, a, b, b_ld, c, ld, 0, columns, 2, 2);
            done = i8_vnni_columns(depth, a, b, b_ld, c, ld, done, columns, 2, 1);
        } else {
            done = i8_vnni_columns(depth, a, b, b_ld, c, ld, 0, columns, 4, 1);
        }
    }
    vnni_excess(a_panel, depth, excess);
    subtract_excess(excess, rows, done, c_tile, ld);
    return done;
}

/* ---- pairs of bf16 ---- */

#define BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define LOAD_PS(from) _mm512_loadu_ps(from)
#define STORE_PS(to, x) _mm512_storeu_ps(to, x)
#define DOT_BF16_512(sums, b, a)                                                                   \
    _mm512_dpbf16_ps(sums, (__m512bh)(b), (__m512bh)_mm512_set1_epi32(a))
NARROW_MICROKERNEL(bf16_dot, BF16_TARGET, 12, __m512, LOAD_PS, STORE_PS, DOT_BF16_512, NO_END)

/* Two rows of 32 columns. */
BF16_TARGET static inline __attribute__((always_inline)) void
bf16_read(const uint16_t *b, uint64_t b_ld, __m512 right[2])
{
    static const uint16_t pairs[2][32] = {
        {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
         8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47},
        {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
         24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63},
    };
    const __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + b_ld);
    for (int v = 0; v < 2; v++)
        right[v] = _mm512_castsi512_ps(
            _mm512_permutex2var_epi16(first, _mm512_loadu_si512(pairs[v]), second));
}
#define AS_THEY_ARE(sums) ((void)(sums))
NARROW_FEW(bf16_dot, BF16_TARGET, 12, __m512, LOAD_PS, STORE_PS, DOT_BF16_512, uint16_t, 2, 2,
           bf16_read, AS_THEY_ARE)

BF16_TARGET static uint64_t bf16_dot_run_few(uint64_t depth, const void *a, const void *b,
                                             uint64_t b_ld, void *c, uint64_t ld, uint64_t rows,
                                             uint64_t columns)
{
    uint64_t done = 0;
    if (rows == 1) {
        done = bf16_dot_columns(depth, a, b, b_ld, c, ld, 0, columns, 1, 8);
        return bf16_dot_columns(depth, a, b, b_ld, c, ld, done, columns, 1, 1);
    }
    if (rows == 2) {
        done = bf16_dot_columns(depth, a, b, b_ld, c, ld, 0, columns, 2, 4);
        return bf16_dot_columns(depth, a, b, b_ld, c, ld, done, columns, 2, 1);
    }
    if (rows <= 4) {
        done = bf16_dot_columns(depth, a, b, b_ld, c, ld, 0, columns, 4, 2);
        return bf16_dot_columns(depth, a, b, b_ld, c, ld, done, columns, 4, 1);
    }
    if (rows <= 8)
        return bf16_dot_columns(depth, a, b, b_ld, c, ld, 0, columns, 8, 1);
    return bf16_dot_columns(depth, a, b, b_ld, c, ld, 0, columns, 12, 1);
}

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
    {{.rows = VNNI_ROWS,
      .columns = 32,
      .steps = 4,
      .flip = 0x80808080,
      .run = i8_vnni_run,
      .run_few = i8_vnni_run_few},
     GEMMD_I8,
     has_vnni},
    {{.rows = 6, .columns = 16, .steps = 2, .run = i16_avx2_run}, GEMMD_I8, has_avx2},
    {{.rows = 4, .columns = 8, .steps = 2, .run = i16_base_run}, GEMMD_I8, has_sse2},
    {{.rows = 12,
      .columns = 32,
      .steps = 2,
      .run = bf16_dot_run,
      .run_few = bf16_dot_run_few,
      .run_tiny = bf16_f32_run},
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
