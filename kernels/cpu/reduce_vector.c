/*
 * reduce_vector.c - the serving kernel of reductions on the CPU.
 *
 * A result is reduced in blocks of BLOCK elements, or a tile of neighbouring results in blocks of
 * BLOCK rows. The sum of a block is kept in LANES (or in the columns of the tile), which the
 * compiler makes vectors of. Sums of blocks are added as a pairwise tree, by a binary counter: the
 * sum of block number b is added to the sums of 1, 2, 4 ... blocks before it that b completes. A
 * sum has at most BLOCK / LANES + log2(LANES) + log2(blocks) roundings (N. J. Higham, "The accuracy
 * of floating point summation", 1993).
 */
#include <float.h>
#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_reduce.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/reduce.h"
#include "proto/dtype.h"

#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 16,
    BLOCK = 64,
    /* Neighbouring results that are reduced together, over an axis before the last, STRIP of them
     * in registers. Fewer than TILE, but no fewer than STRIP, if there are few results. */
    TILE = 256,
    STRIP = 64,
    LEVELS = 32 /* of the counter: 2^32 blocks */
};

/* The sums of blocks of `width` values each, as a pairwise tree. */
struct counter {
    uint64_t blocks;
    float sums[LEVELS][TILE];
};

/* The sum of all blocks, from the last to the first. */
static void counter_total(const struct counter *counter, float *total, uint64_t width)
{
    memset(total, 0, width * sizeof *total);
    for (uint32_t level = 0; level < LEVELS; level++)
        for (uint64_t c = 0; (counter->blocks >> level & 1) != 0 && c < width; c++)
            total[c] += counter->sums[level][c];
}

/* What an element adds to a sum. `scale` is 1 for a logsumexp. */
static float term(enum reduce_op op, float value, float most, float scale)
{
    if (op == REDUCE_LOGSUMEXP)
        return expf(value - most);
    value *= scale;
    return op == REDUCE_NORM2 ? value * value : value;
}

/* The factor with which elements have to be multiplied so that their sum, or that of their squares,
 * is in the range of f32, from the sum without a factor. It is a power of two and makes no rounding
 * error. At most 2^31 elements are summed. */
static float scale_for(enum reduce_op op, float total)
{
    if (op == REDUCE_NORM2) /* where subnormal squares could be missed, all elements are small */
        return total > FLT_MAX ? 0x1p-88f : total < 0x1p-90f ? 0x1p88f : 1;
    return op != REDUCE_LOGSUMEXP && !isfinite(total) ? 0x1p-32f : 1;
}

/* ---- sums, for each set of instructions. Products are rounded: the file is compiled without
 * contraction to fused multiply-adds. ---- */

enum { MANY_LEVEL = 4, MANY = 1 << MANY_LEVEL }; /* blocks that are summed at once */

typedef float lanes_vector
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* The sum of MANY blocks, as a pairwise tree. The lanes of each block are added as in row_sum, with
 * those of other blocks side by side: first the lower 8 of the lanes of two blocks to the upper 8,
 * then the lower 4 of each 8 of four blocks to the upper 4, and so on. */
INLINE float sum_many_body(const float *x, bool squares)
{
    lanes_vector v[MANY];
    for (int i = 0; i < MANY; i++, x += BLOCK) {
        v[i] = (lanes_vector){0};
        for (int l = 0; l < BLOCK; l += LANES) {
            lanes_vector here = *(const lanes_vector *)(x + l);
            if (squares)
                here *= here;
            v[i] += here;
        }
    }
    for (int i = 0; i < 8; i++)
        v[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18,
                                       19, 20, 21, 22, 23) +
               __builtin_shufflevector(v[2 * i], v[2 * i + 1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25,
                                       26, 27, 28, 29, 30, 31);
    for (int i = 0; i < 4; i++)
        v[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18,
                                       19, 24, 25, 26, 27) +
               __builtin_shufflevector(v[2 * i], v[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21,
                                       22, 23, 28, 29, 30, 31);
    for (int i = 0; i < 2; i++)
        v[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20,
                                       21, 24, 25, 28, 29) +
               __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 3, 6, 7, 10, 11, 14, 15, 18, 19,
                                       22, 23, 26, 27, 30, 31);
    lanes_vector sums = __builtin_shufflevector(v[0], v[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                                22, 24, 26, 28, 30) +
                        __builtin_shufflevector(v[0], v[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21,
                                                23, 25, 27, 29, 31);
    for (int half = MANY / 2; half > 0;
         half /= 2) /* neighbours; the upper half is not used again */
        sums = __builtin_shufflevector(sums, sums, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12,
                                       14) +
               __builtin_shufflevector(sums, sums, 1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13,
                                       15);
    return sums[0];
}

/* Sums up to LANES rows of STRIP columns, or of fewer, in each column. */
INLINE void sum_strip_body(const float *x, uint64_t stride, uint64_t rows, uint64_t width,
                           bool squares, float *block)
{
    float sums[STRIP] = {0};
    for (uint64_t l = 0; l < rows; l++)
        for (uint64_t c = 0; c < width; c++)
            sums[c] += squares ? x[l * stride + c] * x[l * stride + c] : x[l * stride + c];
    memcpy(block, sums, width * sizeof *sums);
}

/* The same for any number of columns. */
INLINE void sum_rows_body(const float *x, uint64_t stride, uint64_t rows, uint64_t width,
                          bool squares, float *block)
{
    uint64_t c = 0;
    for (; c + STRIP <= width; c += STRIP)
        sum_strip_body(x + c, stride, rows, STRIP, squares, block + c);
    if (c < width)
        sum_strip_body(x + c, stride, rows, width - c, squares, block + c);
}

/* Adds the sums of 2^level blocks, which the function may overwrite. The number of blocks so far is
 * a multiple of 2^level. */
INLINE void counter_add_body(struct counter *counter, float *block, uint64_t width, uint32_t level)
{
    const uint64_t added = (uint64_t)1 << level;
    for (; (counter->blocks >> level & 1) != 0; level++)
        for (uint64_t c = 0; c < width; c++)
            block[c] += counter->sums[level][c];
    memcpy(counter->sums[level], block, width * sizeof *block);
    counter->blocks += added;
}

/* The functions above for one set of instructions. */
#define SUM_FUNCTIONS(NAME, TARGET)                                                                \
    TARGET static float sum_many_##NAME(const float *x, bool squares)                              \
    {                                                                                              \
        return squares ? sum_many_body(x, true) : sum_many_body(x, false);                         \
    }                                                                                              \
    TARGET static void sum_rows_##NAME(const float *x, uint64_t stride, uint64_t rows,             \
                                       uint64_t width, bool squares, float *block)                 \
    {                                                                                              \
        if (squares)                                                                               \
            sum_rows_body(x, stride, rows, width, true, block);                                    \
        else                                                                                       \
            sum_rows_body(x, stride, rows, width, false, block);                                   \
    }                                                                                              \
    TARGET static void counter_add_##NAME(struct counter *counter, float *block, uint64_t width,   \
                                          uint32_t level)                                          \
    {                                                                                              \
        counter_add_body(counter, block, width, level);                                            \
    }
SUM_FUNCTIONS(base, )
#ifdef __x86_64__
SUM_FUNCTIONS(avx2, __attribute__((target("avx2"))))
SUM_FUNCTIONS(avx512, WIDE_VECTORS("avx512f"))
#endif

static float sum_many(const float *x, bool squares)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return sum_many_avx512(x, squares);
    if (__builtin_cpu_supports("avx2"))
        return sum_many_avx2(x, squares);
#endif
    return sum_many_base(x, squares);
}

static void sum_rows(const float *x, uint64_t stride, uint64_t rows, uint64_t width, bool squares,
                     float *block)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        sum_rows_avx512(x, stride, rows, width, squares, block);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        sum_rows_avx2(x, stride, rows, width, squares, block);
        return;
    }
#endif
    sum_rows_base(x, stride, rows, width, squares, block);
}

static void counter_add(struct counter *counter, float *block, uint64_t width, uint32_t level)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        counter_add_avx512(counter, block, width, level);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        counter_add_avx2(counter, block, width, level);
        return;
    }
#endif
    counter_add_base(counter, block, width, level);
}

/* ---- the greatest element, for each set of instructions ---- */

/* Keeps the greatest of most[c] and of the elements sign * x[l * stride + c] of `rows` rows in each
 * column, of which the first NaN is the greatest, with the number of its row; `number` is that of
 * the first row. At most STRIP columns. */
INLINE void keep_most_strip(const float *x, uint64_t stride, uint64_t rows, float sign,
                            uint64_t width, int32_t number, float *most, int32_t *place)
{
    float greatest[STRIP];
    int32_t places[STRIP];
    memcpy(greatest, most, width * sizeof *most);
    memcpy(places, place, width * sizeof *place);
    for (uint64_t l = 0; l < rows; l++, x += stride, number++)
        for (uint64_t c = 0; c < width; c++) {
            const float value = sign * x[c], before = greatest[c];
            const bool more = (before == before) & !(value <= before);
            greatest[c] = more ? value : before;
            places[c] = more ? number : places[c];
        }
    memcpy(most, greatest, width * sizeof *most);
    memcpy(place, places, width * sizeof *place);
}

/* The same for any number of columns. */
INLINE void keep_most_body(const float *x, uint64_t stride, uint64_t rows, float sign,
                           uint64_t width, int32_t number, float *most, int32_t *place)
{
    uint64_t c = 0;
    for (; c + STRIP <= width; c += STRIP)
        keep_most_strip(x + c, stride, rows, sign, STRIP, number, most + c, place + c);
    if (c < width)
        keep_most_strip(x + c, stride, rows, sign, width - c, number, most + c, place + c);
}

enum { SIDE_BY_SIDE = 4 * LANES };

/* Halves the numbers side by side. `half` is a constant in each call. */
INLINE void fold_most(float *most, uint32_t *strange, uint64_t half)
{
    for (uint64_t l = 0; l < half; l++) {
        most[l] = most[l + half] > most[l] ? most[l + half] : most[l];
        strange[l] |= strange[l + half];
    }
}

/* Returns the greatest of sign * x[i], or NaN if one of them is NaN. */
INLINE float find_most_body(const float *x, float sign, uint64_t count)
{
    float most[SIDE_BY_SIDE];
    uint32_t strange[SIDE_BY_SIDE] = {0};
    uint64_t i = 0;
    for (uint64_t l = 0; l < SIDE_BY_SIDE; l++)
        most[l] = -INFINITY;
    for (; i + SIDE_BY_SIDE <= count; i += SIDE_BY_SIDE)
        for (uint64_t l = 0; l < SIDE_BY_SIDE; l++) {
            const float value = sign * x[i + l];
            most[l] = value > most[l] ? value : most[l];
            strange[l] |= value != value ? 1 : 0;
        }
    fold_most(most, strange, SIDE_BY_SIDE / 2);
    fold_most(most, strange, SIDE_BY_SIDE / 4);
    fold_most(most, strange, SIDE_BY_SIDE / 8);
    for (uint64_t l = 1; l < SIDE_BY_SIDE / 8; l++) {
        most[0] = most[l] > most[0] ? most[l] : most[0];
        strange[0] |= strange[l];
    }
    for (; i < count; i++) {
        const float value = sign * x[i];
        most[0] = value > most[0] ? value : most[0];
        strange[0] |= value != value ? 1 : 0;
    }
    return strange[0] != 0 ? NAN : most[0];
}

/* Whether two numbers are equal, or both are NaN. */
INLINE bool is_same(float a, float b)
{
    return a == b || (a != a && b != b);
}

/* Returns the number of the first element for which sign * x[i] is `most`, or NaN if `most` is.
 * 0 if there is none: a client has changed the elements in memory that it shares. */
INLINE uint64_t find_place_body(const float *x, float sign, float most, uint64_t count)
{
    uint64_t i = 0;
    for (uint32_t found = 0; i + SIDE_BY_SIDE <= count; i += SIDE_BY_SIDE) {
        for (uint64_t l = 0; l < SIDE_BY_SIDE; l++) {
            const float value = sign * x[i + l];
            found |= (uint32_t)((value == most) | ((value != value) & (most != most)));
        }
        if (found != 0)
            break;
    }
    while (i < count && !is_same(sign * x[i], most))
        i++;
    return i < count ? i : 0;
}

/* The functions above for one set of instructions. */
#define KEEP_FUNCTION(NAME, TARGET)                                                                \
    TARGET static void keep_most_##NAME(const float *x, uint64_t stride, uint64_t rows,            \
                                        float sign, uint64_t width, int32_t number, float *most,   \
                                        int32_t *place)                                            \
    {                                                                                              \
        keep_most_body(x, stride, rows, sign, width, number, most, place);                         \
    }
#define FIND_FUNCTIONS(NAME, TARGET)                                                               \
    TARGET static float find_most_##NAME(const float *x, float sign, uint64_t count)               \
    {                                                                                              \
        return find_most_body(x, sign, count);                                                     \
    }                                                                                              \
    TARGET static uint64_t find_place_##NAME(const float *x, float sign, float most,               \
                                             uint64_t count)                                       \
    {                                                                                              \
        return find_place_body(x, sign, most, count);                                              \
    }
KEEP_FUNCTION(base, )
FIND_FUNCTIONS(base, )
#ifdef __x86_64__
KEEP_FUNCTION(avx2, __attribute__((target("avx2"))))
FIND_FUNCTIONS(avx2, __attribute__((target("avx2"))))
KEEP_FUNCTION(avx512, WIDE_VECTORS("avx512f"))

/* find_most_body and find_place_body with masks, which short rows gain the most from. */
enum { AVX512_LANES = 16 };

__attribute__((target("avx512f"), always_inline)) static inline __m512 load_512(const float *x,
                                                                                uint64_t left)
{
    const __mmask16 is_there = (__mmask16)(left >= AVX512_LANES ? 0xffffu : (1u << left) - 1);
    return _mm512_maskz_loadu_ps(is_there, x);
}

__attribute__((target("avx512f"))) static float find_most_avx512(const float *x, float sign,
                                                                 uint64_t count)
{
    enum { VECTORS = 4 };
    const __m512 signs = _mm512_set1_ps(sign);
    const __m512 first = _mm512_set1_ps(sign * x[0]); /* in the place of what is not there */
    __m512 most[VECTORS] = {first, first, first, first};
    __mmask16 strange = _mm512_cmp_ps_mask(first, first, _CMP_UNORD_Q);
    uint64_t i = 0;
    for (; i + VECTORS * AVX512_LANES <= count; i += VECTORS * AVX512_LANES) {
        __m512 value[VECTORS];
#pragma GCC unroll 4
        for (uint64_t v = 0; v < VECTORS; v++) {
            value[v] = signs * _mm512_loadu_ps(x + i + v * AVX512_LANES);
            most[v] = _mm512_max_ps(value[v], most[v]);
        }
        strange |= _mm512_cmp_ps_mask(value[0], value[1], _CMP_UNORD_Q) |
                   _mm512_cmp_ps_mask(value[2], value[3], _CMP_UNORD_Q);
    }
    for (; i < count; i += AVX512_LANES) {
        const uint64_t left = count - i;
        const __mmask16 is_there = (__mmask16)(left >= AVX512_LANES ? 0xffffu : (1u << left) - 1);
        const __m512 value = _mm512_mask_mul_ps(first, is_there, signs, load_512(x + i, left));
        most[0] = _mm512_max_ps(value, most[0]);
        strange |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    }
    if (strange != 0)
        return NAN;
    most[0] = _mm512_max_ps(most[0], most[1]);
    return _mm512_reduce_max_ps(_mm512_max_ps(most[0], _mm512_max_ps(most[2], most[3])));
}

__attribute__((target("avx512f"))) static uint64_t find_place_avx512(const float *x, float sign,
                                                                     float most, uint64_t count)
{
    const __m512 sought = _mm512_set1_ps(sign * most); /* exact */
    for (uint64_t i = 0; i < count; i += AVX512_LANES) {
        const __m512 value = load_512(x + i, count - i);
        const uint32_t found = most != most ? _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q)
                                            : _mm512_cmp_ps_mask(value, sought, _CMP_EQ_OQ);
        if (found != 0) /* in front of the zeros behind the row */
            return i + (uint64_t)__builtin_ctz(found);
    }
    return 0;
}
#endif

static void keep_most(const float *x, uint64_t stride, uint64_t rows, float sign, uint64_t width,
                      int32_t number, float *most, int32_t *place)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        keep_most_avx512(x, stride, rows, sign, width, number, most, place);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        keep_most_avx2(x, stride, rows, sign, width, number, most, place);
        return;
    }
#endif
    keep_most_base(x, stride, rows, sign, width, number, most, place);
}

static float find_most(const float *x, float sign, uint64_t count)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return find_most_avx512(x, sign, count);
    if (__builtin_cpu_supports("avx2"))
        return find_most_avx2(x, sign, count);
#endif
    return find_most_base(x, sign, count);
}

static uint64_t find_place(const float *x, float sign, float most, uint64_t count)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return find_place_avx512(x, sign, most, count);
    if (__builtin_cpu_supports("avx2"))
        return find_place_avx2(x, sign, most, count);
#endif
    return find_place_base(x, sign, most, count);
}

/* ---- neighbouring results: `width` columns, `length` rows ---- */

struct columns {
    const struct reduce_problem *p;
    struct team_pace *pace;
    const char *x;  /* the first element of the first column */
    uint64_t width; /* columns, at most TILE */
    /* The greatest element of each column, and its row. */
    float most[TILE];
    int32_t place[TILE];
    float scale[TILE]; /* of the elements that a sum adds */
};

/* The functions below that return a bool return false if the computation has to stop. */

/* Reads up to LANES rows from row `first` on, in f32. Returns where they are, *stride elements
 * apart: in X or in `rows`; NULL: the computation has to stop. */
static const float *read_rows(const struct columns *columns, uint64_t first, uint64_t count,
                              float rows[LANES][TILE], uint64_t *stride)
{
    const struct reduce_problem *p = columns->p;
    const uint64_t pitch = p->length_stride * dtype_size(p->dtype);
    const char *x = columns->x + first * pitch;
    if (team_pace_stops(columns->pace, count * columns->width))
        return NULL;
    if (p->dtype == GEMMD_F32) {
        *stride = p->length_stride;
        return (const float *)(const void *)x;
    }
    for (uint64_t l = 0; l < count; l++)
        convert_widen(p->dtype, x + l * pitch, rows[l], columns->width);
    *stride = TILE;
    return rows[0];
}

/* Finds the greatest element of each column (the least for min, negated), and its place. NaN is
 * greater than all. */
static bool columns_find_most(struct columns *columns)
{
    const float sign = columns->p->op == REDUCE_MIN ? -1 : 1;
    const uint64_t length = columns->p->length;
    float rows[LANES][TILE];
    for (uint64_t first = 0, stride; first < length; first += LANES) {
        const uint64_t count = length - first < LANES ? length - first : LANES;
        const float *x = read_rows(columns, first, count, rows, &stride);
        if (x == NULL)
            return false;
        for (uint64_t c = 0; first == 0 && c < columns->width; c++) {
            columns->most[c] = sign * x[c];
            columns->place[c] = 0;
        }
        keep_most(x, stride, count, sign, columns->width, (int32_t)first, columns->most,
                  columns->place);
    }
    return true;
}

/* Whether elements or squares are summed as they are. */
static bool is_plain(const struct reduce_problem *p, const float scale[], uint64_t width)
{
    bool is_one = true;
    for (uint64_t c = 0; c < width; c++)
        is_one &= scale[c] == 1;
    return is_one && p->op != REDUCE_LOGSUMEXP;
}

/* Sums `count` rows from row `first` on, which begins a block. `plain`: as is_plain. */
static bool columns_sum_block(const struct columns *columns, bool plain, uint64_t first,
                              uint64_t count, float block[TILE])
{
    const struct reduce_problem *p = columns->p;
    float rows[LANES][TILE];
    uint64_t stride;
    const float *x = read_rows(columns, first, count, rows, &stride);
    if (x == NULL)
        return false;
    if (plain) {
        sum_rows(x, stride, count, columns->width, p->op == REDUCE_NORM2, block);
        return true;
    }
    memset(block, 0, TILE * sizeof *block);
    for (uint64_t l = 0; l < count; l++)
        for (uint64_t c = 0; c < columns->width; c++)
            block[c] += term(p->op, x[l * stride + c], columns->most[c], columns->scale[c]);
    return true;
}

static bool columns_sum(const struct columns *columns, float *total)
{
    const uint64_t length = columns->p->length;
    const bool plain = is_plain(columns->p, columns->scale, columns->width);
    struct counter counter;
    float block[TILE];
    counter.blocks = 0;
    for (uint64_t first = 0; first < length; first += LANES) {
        const uint64_t left = length - first;
        if (!columns_sum_block(columns, plain, first, left < LANES ? left : LANES, block))
            return false;
        counter_add(&counter, block, columns->width, 0);
    }
    counter_total(&counter, total, columns->width);
    return true;
}

/* ---- one result: contiguous elements ---- */

/* Reads up to BLOCK elements from element `first` on. Returns their number; 0: the computation has
 * to stop, which is asked once in SLICE elements. */
static uint64_t read_block(const struct columns *columns, uint64_t first, float *block)
{
    enum { SLICE = 64 * BLOCK };
    const struct reduce_problem *p = columns->p;
    const uint64_t count = p->length - first < BLOCK ? p->length - first : BLOCK;
    if (first % SLICE == 0 && team_pace_stops(columns->pace, SLICE))
        return 0;
    convert_widen(p->dtype, columns->x + first * dtype_size(p->dtype), block, count);
    return count;
}

/* The greatest element of a row is first sought among slices, without its place, and then in the
 * slice that has it. */
static bool row_find_most(struct columns *columns)
{
    enum { SLICE = 1024 };
    const struct reduce_problem *p = columns->p;
    const float sign = p->op == REDUCE_MIN ? -1 : 1;
    const uint64_t size = dtype_size(p->dtype);
    float memory[SLICE], most = 0;
    uint64_t best = 0;
    for (uint64_t first = 0; first < p->length; first += SLICE) {
        const uint64_t count = p->length - first < SLICE ? p->length - first : SLICE;
        if (team_pace_stops(columns->pace, count))
            return false;
        const float *slice = convert_widened(p->dtype, columns->x + first * size, memory, count);
        const float here = find_most(slice, sign, count);
        if (first > 0 && here <= most)
            continue;
        best = first;
        most = here;
        if (most != most)
            break;
    }
    if (p->op != REDUCE_ARGMAX && most == most && most != 0) { /* its bits are known: not a zero */
        columns->most[0] = most;
        return true;
    }
    const uint64_t left = p->length - best;
    const float *slice =
        convert_widened(p->dtype, columns->x + best * size, memory, left < SLICE ? left : SLICE);
    const uint64_t i = find_place(slice, sign, most, left < SLICE ? left : SLICE);
    columns->most[0] = sign * slice[i];
    columns->place[0] = (int32_t)(best + i);
    return true;
}

static bool row_sum(const struct columns *columns, float *total)
{
    const struct reduce_problem *p = columns->p;
    struct counter counter;
    const float scale = columns->scale[0];
    float block[BLOCK], lanes[LANES], memory[MANY * BLOCK];
    uint64_t first = 0;
    counter.blocks = 0;
    for (; is_plain(p, &scale, 1) && first + MANY * BLOCK <= p->length; first += MANY * BLOCK) {
        const char *x = columns->x + first * dtype_size(p->dtype);
        if (team_pace_stops(columns->pace, MANY * BLOCK))
            return false;
        lanes[0] =
            sum_many(convert_widened(p->dtype, x, memory, MANY * BLOCK), p->op == REDUCE_NORM2);
        counter_add(&counter, lanes, 1, MANY_LEVEL);
    }
    for (; first < p->length; first += BLOCK) {
        const uint64_t count = read_block(columns, first, block);
        if (count == 0)
            return false;
        memset(lanes, 0, sizeof lanes);
        for (uint64_t i = 0; i < count; i++)
            block[i] = term(p->op, block[i], columns->most[0], scale);
        for (uint64_t i = count; i < BLOCK; i++)
            block[i] = 0;
        for (uint64_t i = 0; i < BLOCK; i += LANES)
            for (uint64_t lane = 0; lane < LANES; lane++)
                lanes[lane] += block[i + lane];
        for (uint64_t half = LANES / 2; half > 0; half /= 2)
            for (uint64_t lane = 0; lane < half; lane++)
                lanes[lane] += lanes[lane + half];
        counter_add(&counter, lanes, 1, 0);
    }
    counter_total(&counter, total, 1);
    return true;
}

/* ---- results ---- */

struct reduce_job {
    const struct reduce_problem *p;
    struct team *team;
    uint64_t tile;  /* columns of a part */
    uint64_t tiles; /* of each (outer, mid), or 1 */
    uint64_t rows;  /* results of contiguous elements in each part */
};

/* Sums the elements of each column. The sums that leave the range of f32 are computed anew from
 * scaled elements. */
static bool sum_in_range(struct columns *columns, float *total)
{
    const struct reduce_problem *p = columns->p;
    bool (*const sum)(const struct columns *, float *) =
        reduce_is_of_rows(p) ? row_sum : columns_sum;
    bool is_scaled = false;
    for (uint64_t c = 0; c < columns->width; c++)
        columns->scale[c] = 1;
    if (!sum(columns, total))
        return false;
    for (uint64_t c = 0; c < columns->width; c++) {
        columns->scale[c] = scale_for(p->op, total[c]);
        is_scaled |= columns->scale[c] != 1;
    }
    return !is_scaled || sum(columns, total);
}

/* Reduces the columns from result number `first` on. */
static bool reduce_columns(const struct reduce_problem *p, struct team_pace *pace, uint64_t first,
                           uint64_t width)
{
    struct columns columns = {
        .p = p, .pace = pace, .x = reduce_place_of(p, first).x, .width = width};
    float total[TILE];
    if (p->op >= REDUCE_MAX && p->op != REDUCE_NORM2 &&
        !(reduce_is_of_rows(p) ? row_find_most : columns_find_most)(&columns))
        return false;
    if (p->op != REDUCE_MAX && p->op != REDUCE_MIN && p->op != REDUCE_ARGMAX &&
        !sum_in_range(&columns, total))
        return false;
    for (uint64_t c = 0; c < width; c++) {
        char *y = reduce_place_of(p, first + c).y;
        const float most = columns.most[c];
        if (p->op == REDUCE_ARGMAX)
            reduce_store_integer(p->out, columns.place[c], y);
        else if (p->op == REDUCE_MAX || p->op == REDUCE_MIN)
            reduce_store(p->out, p->op == REDUCE_MIN ? -most : most, y);
        else if (p->op == REDUCE_LOGSUMEXP)
            reduce_store(p->out, isinf(most) ? most : most + logf(total[c]), y);
        else if (p->op == REDUCE_NORM2)
            reduce_store(p->out, sqrtf(total[c]) / columns.scale[c], y);
        else
            reduce_store(p->out,
                         (p->op == REDUCE_MEAN ? total[c] / (float)p->length : total[c]) /
                             columns.scale[c],
                         y);
    }
    return true;
}

static void reduce_part(void *argument, uint64_t part, uint32_t member)
{
    const struct reduce_job *job = argument;
    const struct reduce_problem *p = job->p;
    struct team_pace pace = {.team = job->team};
    (void)member;
    if (reduce_is_of_rows(p)) {
        const uint64_t end = (part + 1) * job->rows, all = reduce_results(p);
        for (uint64_t row = part * job->rows; row < end && row < all; row++)
            if (!reduce_columns(p, &pace, row, 1))
                return;
        return;
    }
    const uint64_t first = part % job->tiles * job->tile, left = p->width - first;
    (void)reduce_columns(p, &pace, part / job->tiles * p->width + first,
                         left < job->tile ? left : job->tile);
}

static enum gemmd_error reduce_vector_run(struct gemm_context *base, const void *problem,
                                          void *workspace)
{
    enum { PART_ELEMENTS = 1 << 16, PARTS_EACH = 2 };
    const struct reduce_problem *p = problem;
    struct reduce_job job = {.p = p, .team = cpu_context_of(base)->team, .tiles = 1, .rows = 1};
    uint64_t parts = reduce_results(p);
    (void)workspace;
    if (reduce_is_of_rows(p)) {
        job.rows = p->length < PART_ELEMENTS ? PART_ELEMENTS / p->length : 1;
        parts = (parts + job.rows - 1) / job.rows;
    } else {
        const uint64_t wide = p->outer * p->mid * (p->width / TILE);
        job.tile = wide >= PARTS_EACH * team_size(job.team) ? TILE : STRIP;
        job.tiles = (p->width + job.tile - 1) / job.tile;
        parts = p->outer * p->mid * job.tiles;
    }
    team_run(job.team, reduce_part, &job, parts);
    return GEMMD_OK;
}

/* Integers are summed exactly, and f64 in f64, by the naive kernel. */
static bool reduce_vector_takes(const void *problem)
{
    const struct reduce_problem *p = problem;
    return reduce_problem_offered(problem) &&
           (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16);
}

const struct operation_kernel reduce_cpu_vector = {
    .name = "vector",
    .description = "blocks in vectors, added as a pairwise tree; columns side by side",
    .takes = reduce_vector_takes,
    .workspace_bytes = operation_no_workspace,
    .run = reduce_vector_run,
};
