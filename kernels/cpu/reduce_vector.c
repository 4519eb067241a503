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
    TILE = 64,  /* neighbouring results that are reduced together, over an axis before the last */
    LEVELS = 32 /* of the counter: 2^32 blocks */
};

/* The sums of blocks of `width` values each, as a pairwise tree. */
struct counter {
    uint64_t blocks;
    float sums[LEVELS][TILE];
};

/* Adds the sums of 2^level blocks, which the function may overwrite. The number of blocks so far is
 * a multiple of 2^level. */
static void counter_add(struct counter *counter, float *block, uint64_t width, uint32_t level)
{
    const uint64_t added = (uint64_t)1 << level;
    for (; (counter->blocks >> level & 1) != 0; level++)
        for (uint64_t c = 0; c < width; c++)
            block[c] += counter->sums[level][c];
    memcpy(counter->sums[level], block, width * sizeof *block);
    counter->blocks += added;
}

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

/* Sums up to LANES rows of TILE columns, or of fewer, in each column. */
INLINE void sum_rows_body(const float *x, uint64_t stride, uint64_t rows, uint64_t width,
                          bool squares, float *block)
{
    float sums[TILE] = {0};
    for (uint64_t l = 0; l < rows; l++)
        for (uint64_t c = 0; c < width; c++)
            sums[c] += squares ? x[l * stride + c] * x[l * stride + c] : x[l * stride + c];
    memcpy(block, sums, sizeof sums);
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
        if (width == TILE && !squares)                                                             \
            sum_rows_body(x, stride, rows, TILE, false, block);                                    \
        else if (width == TILE)                                                                    \
            sum_rows_body(x, stride, rows, TILE, true, block);                                     \
        else                                                                                       \
            sum_rows_body(x, stride, rows, width, squares, block);                                 \
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

/* ---- the greatest element, for each set of instructions ---- */

/* Keeps the greater of most[c] and sign * row[c] in each column, of which the first NaN is the
 * greatest, with the number of the row. */
INLINE void keep_most_body(const float *row, float sign, uint64_t width, int32_t number,
                           float *most, int32_t *place)
{
    for (uint64_t c = 0; c < width; c++) {
        const float value = sign * row[c], before = most[c];
        const bool more = (before == before) & !(value <= before);
        most[c] = more ? value : before;
        place[c] = more ? number : place[c];
    }
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

/* Returns the number of the first block of SIDE_BY_SIDE elements in which sign * x[i] is `most`, or
 * NaN if `most` is; the number of whole blocks if there is none. */
INLINE uint64_t find_block_body(const float *x, float sign, float most, uint64_t count)
{
    const uint64_t blocks = count / SIDE_BY_SIDE;
    for (uint64_t b = 0; b < blocks; b++) {
        uint32_t found = 0;
        for (uint64_t l = 0; l < SIDE_BY_SIDE; l++) {
            const float value = sign * x[b * SIDE_BY_SIDE + l];
            found |= (uint32_t)((value == most) | ((value != value) & (most != most)));
        }
        if (found != 0)
            return b;
    }
    return blocks;
}

/* The functions above for one set of instructions. */
#define MOST_FUNCTIONS(NAME, TARGET)                                                               \
    TARGET static void keep_most_##NAME(const float *row, float sign, uint64_t width,              \
                                        int32_t number, float *most, int32_t *place)               \
    {                                                                                              \
        keep_most_body(row, sign, width, number, most, place);                                     \
    }                                                                                              \
    TARGET static float find_most_##NAME(const float *x, float sign, uint64_t count)               \
    {                                                                                              \
        return find_most_body(x, sign, count);                                                     \
    }                                                                                              \
    TARGET static uint64_t find_block_##NAME(const float *x, float sign, float most,               \
                                             uint64_t count)                                       \
    {                                                                                              \
        return find_block_body(x, sign, most, count);                                              \
    }
MOST_FUNCTIONS(base, )
#ifdef __x86_64__
MOST_FUNCTIONS(avx2, __attribute__((target("avx2"))))
MOST_FUNCTIONS(avx512, WIDE_VECTORS("avx512f"))
#endif

static void keep_most(const float *row, float sign, uint64_t width, int32_t number, float *most,
                      int32_t *place)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        keep_most_avx512(row, sign, width, number, most, place);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        keep_most_avx2(row, sign, width, number, most, place);
        return;
    }
#endif
    keep_most_base(row, sign, width, number, most, place);
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

static uint64_t find_block(const float *x, float sign, float most, uint64_t count)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return find_block_avx512(x, sign, most, count);
    if (__builtin_cpu_supports("avx2"))
        return find_block_avx2(x, sign, most, count);
#endif
    return find_block_base(x, sign, most, count);
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

static bool read_row(const struct columns *columns, uint64_t l, float *row)
{
    const struct reduce_problem *p = columns->p;
    convert_widen(p->dtype, columns->x + l * p->length_stride * dtype_size(p->dtype), row,
                  columns->width);
    return !team_pace_stops(columns->pace, columns->width);
}

/* Finds the greatest element of each column (the least for min, negated), and its place. NaN is
 * greater than all. */
static bool columns_find_most(struct columns *columns)
{
    const float sign = columns->p->op == REDUCE_MIN ? -1 : 1;
    float row[TILE];
    if (!read_row(columns, 0, row))
        return false;
    for (uint64_t c = 0; c < columns->width; c++) {
        columns->most[c] = sign * row[c];
        columns->place[c] = 0;
    }
    for (uint64_t l = 1; l < columns->p->length; l++) {
        if (!read_row(columns, l, row))
            return false;
        keep_most(row, sign, columns->width, (int32_t)l, columns->most, columns->place);
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

/* Sums `count` rows from row `first` on, which begins a block. */
static bool columns_sum_block(const struct columns *columns, uint64_t first, uint64_t count,
                              float block[TILE])
{
    const struct reduce_problem *p = columns->p;
    float rows[LANES][TILE];
    const float *x = rows[0];
    uint64_t stride = TILE;
    if (team_pace_stops(columns->pace, count * columns->width))
        return false;
    if (p->dtype == GEMMD_F32) {
        x = (const float *)(const void *)columns->x + first * p->length_stride;
        stride = p->length_stride;
    }
    for (uint64_t l = 0; l < count && x == rows[0]; l++)
        convert_widen(p->dtype, columns->x + (first + l) * p->length_stride * dtype_size(p->dtype),
                      rows[l], columns->width);
    if (is_plain(p, columns->scale, columns->width)) {
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
    struct counter counter;
    float block[TILE];
    counter.blocks = 0;
    for (uint64_t first = 0; first < length; first += LANES) {
        const uint64_t left = length - first;
        if (!columns_sum_block(columns, first, left < LANES ? left : LANES, block))
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

/* Whether two numbers are equal, or both are NaN. */
static bool is_same(float a, float b)
{
    return a == b || (a != a && b != b);
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
    uint64_t i = find_block(slice, sign, most, left < SLICE ? left : SLICE) * SIDE_BY_SIDE;
    while (!is_same(sign * slice[i], most))
        i++;
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
    const uint64_t first = part % job->tiles * TILE, left = p->width - first;
    (void)reduce_columns(p, &pace, part / job->tiles * p->width + first, left < TILE ? left : TILE);
}

static enum gemmd_error reduce_vector_run(struct gemm_context *base, const void *problem,
                                          void *workspace)
{
    enum { PART_ELEMENTS = 1 << 16 };
    const struct reduce_problem *p = problem;
    struct reduce_job job = {.p = p, .team = cpu_context_of(base)->team, .tiles = 1, .rows = 1};
    uint64_t parts = reduce_results(p);
    (void)workspace;
    if (reduce_is_of_rows(p)) {
        job.rows = p->length < PART_ELEMENTS ? PART_ELEMENTS / p->length : 1;
        parts = (parts + job.rows - 1) / job.rows;
    } else {
        job.tiles = (p->width + TILE - 1) / TILE;
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
