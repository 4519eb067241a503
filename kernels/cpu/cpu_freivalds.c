/*
 * cpu_freivalds.c - the check of a product on the CPU (kernels/freivalds.h), by the context's team.
 *
 * The outputs of op(B)*r and of op(A)*(op(B)*r) are divided into parts whose sizes depend on the
 * problem alone, so that the residual does not depend on the number of threads.
 */
#include "kernels/freivalds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/freivalds_parts.h"
#include "proto/dtype.h"

enum {
    CHUNK = 256,             /* elements of a line that are widened at a time */
    DRAW_STEPS = 8,          /* of struct team_pace that an element of r takes */
    LINES = 4,               /* of which `add` adds chunks at a time */
    PART_ELEMENTS = 1 << 16, /* of a matrix, that a part reads at least */
    PART_COLUMNS = 512       /* at least, if the sums run across the lines of a matrix */
};

/* ---- sums over a chunk ---- */

/* The loops over chunks, for one kind of processor. Each adds to its sums. `dot` adds up to one
 * output: x*v, (x*v)^2 and |x*v|. `add` adds LINES lines to the outputs of their elements. The
 * weighted ones sum x*v and |x|*w. */
struct sums {
    void (*dot)(const double *x, const double *v, uint64_t count, double *value, double *square,
                double *absolute);
    void (*add)(double x[LINES][CHUNK], const double *v, uint64_t count, double *value,
                double *square, double *absolute);
    void (*dot_weighted)(const double *x, const double *v, const double *w, uint64_t count,
                         double *expected, double *bound);
    void (*add_weighted)(const double *x, double v, double w, uint64_t count, double *expected,
                         double *bound);
    uint32_t (*dot_i32)(const int8_t *x, const uint32_t *v, uint64_t count);
    void (*add_i32)(const int8_t *x, uint32_t v, uint64_t count, uint32_t *out);
};

#define INLINE static inline __attribute__((always_inline))

INLINE void dot_lanes(const double *x, const double *v, uint64_t count, double *value,
                      double *square, double *absolute)
{
    double values = 0, squares = 0, absolutes = 0;
#pragma omp simd reduction(+ : values, squares, absolutes)
    for (uint64_t i = 0; i < count; i++) {
        const double product = x[i] * v[i];
        values += product;
        squares += product * product;
        absolutes += fabs(product);
    }
    *value += values;
    *square += squares;
    *absolute += absolutes;
}

/* The sums stay in registers for the lines that are added together. */
INLINE void add_lines(double x[LINES][CHUNK], const double *v, uint64_t count, double *value,
                      double *square, double *absolute)
{
#pragma omp simd
    for (uint64_t i = 0; i < count; i++) {
        double values = value[i], squares = square[i], absolutes = absolute[i];
        for (int line = 0; line < LINES; line++) {
            const double product = x[line][i] * v[line];
            values += product;
            squares += product * product;
            absolutes += fabs(product);
        }
        value[i] = values;
        square[i] = squares;
        absolute[i] = absolutes;
    }
}

INLINE void dot_weighted_lanes(const double *x, const double *v, const double *w, uint64_t count,
                               double *expected, double *bound)
{
    double values = 0, bounds = 0;
#pragma omp simd reduction(+ : values, bounds)
    for (uint64_t i = 0; i < count; i++) {
        values += x[i] * v[i];
        bounds += fabs(x[i]) * w[i];
    }
    *expected += values;
    *bound += bounds;
}

INLINE void add_weighted_lines(const double *restrict x, double v, double w, uint64_t count,
                               double *restrict expected, double *restrict bound)
{
    for (uint64_t i = 0; i < count; i++) {
        expected[i] += x[i] * v;
        bound[i] += fabs(x[i]) * w;
    }
}

INLINE uint32_t dot_i32_lanes(const int8_t *x, const uint32_t *v, uint64_t count)
{
    uint32_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += (uint32_t)x[i] * v[i];
    return sum;
}

INLINE void add_i32_lines(const int8_t *restrict x, uint32_t v, uint64_t count,
                          uint32_t *restrict out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] += (uint32_t)x[i] * v;
}

/* Defines the functions of one kind of processor, which the attributes after `name` choose. */
#define SUMS_FOR(name, ...)                                                                        \
    __VA_ARGS__ static void dot_##name(const double *x, const double *v, uint64_t count,           \
                                       double *value, double *square, double *absolute)            \
    {                                                                                              \
        dot_lanes(x, v, count, value, square, absolute);                                           \
    }                                                                                              \
    __VA_ARGS__ static void add_##name(double x[LINES][CHUNK], const double *v, uint64_t count,    \
                                       double *value, double *square, double *absolute)            \
    {                                                                                              \
        add_lines(x, v, count, value, square, absolute);                                           \
    }                                                                                              \
    __VA_ARGS__ static void dot_weighted_##name(const double *x, const double *v, const double *w, \
                                                uint64_t count, double *expected, double *bound)   \
    {                                                                                              \
        dot_weighted_lanes(x, v, w, count, expected, bound);                                       \
    }                                                                                              \
    __VA_ARGS__ static void add_weighted_##name(const double *x, double v, double w,               \
                                                uint64_t count, double *expected, double *bound)   \
    {                                                                                              \
        add_weighted_lines(x, v, w, count, expected, bound);                                       \
    }                                                                                              \
    __VA_ARGS__ static uint32_t dot_i32_##name(const int8_t *x, const uint32_t *v, uint64_t count) \
    {                                                                                              \
        return dot_i32_lanes(x, v, count);                                                         \
    }                                                                                              \
    __VA_ARGS__ static void add_i32_##name(const int8_t *x, uint32_t v, uint64_t count,            \
                                           uint32_t *out)                                          \
    {                                                                                              \
        add_i32_lines(x, v, count, out);                                                           \
    }                                                                                              \
    static const struct sums sums_##name = {dot_##name,          add_##name,                       \
                                            dot_weighted_##name, add_weighted_##name,              \
                                            dot_i32_##name,      add_i32_##name};

SUMS_FOR(any)
#ifdef __x86_64__
SUMS_FOR(avx2, __attribute__((target("avx2,fma"))))

static const struct sums *sums_of_processor(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &sums_avx2 : &sums_any;
}
#else
static const struct sums *sums_of_processor(void)
{
    return &sums_any;
}
#endif

/* ---- the parts of a check ---- */

/* One problem's matrix as stored, whose sums run along its lines or across them. */
struct matrix {
    enum gemmd_dtype dtype;
    const char *start;
    uint64_t ld, inner; /* elements; `inner` of them make up an output */
    bool along;
};

static struct matrix a_of(const struct gemm_problem *p, uint64_t index)
{
    const uint64_t from = index * p->stride_a * dtype_size(p->dtype);
    return (struct matrix){p->dtype, (const char *)p->a + from, p->lda, p->k, !p->transa};
}

static struct matrix b_of(const struct gemm_problem *p, uint64_t index)
{
    const uint64_t from = index * p->stride_b * dtype_size(p->dtype);
    return (struct matrix){p->dtype, (const char *)p->b + from, p->ldb, p->n, !p->transb};
}

/* How `count` outputs of each matrix are divided into parts. */
struct division {
    uint64_t count, size, parts;
};

static struct division divide(uint64_t count, const struct matrix *like)
{
    uint64_t size = (PART_ELEMENTS + like->inner - 1) / like->inner;
    if (!like->along && size < PART_COLUMNS)
        size = PART_COLUMNS;
    return (struct division){count, size, (count + size - 1) / size};
}

/* The outputs first ... end - 1 of matrix `index`. */
struct part {
    uint64_t index, first, end;
};

static struct part part_of(const struct division *division, uint64_t number)
{
    const uint64_t first = number % division->parts * division->size;
    const uint64_t rest = division->count - first;
    return (struct part){number / division->parts, first,
                         first + (rest < division->size ? rest : division->size)};
}

struct check {
    const struct gemm_problem *p;
    const struct sums *sums;
    struct team *team;
    struct freivalds_rounding rounding;
    struct freivalds_header *header;
    double *residuals;                 /* [batch][m] */
    double *r;                         /* [n] */
    double *value, *square, *absolute; /* [number of Bs][k] of op(B)*r */
    double *expected, *bound;          /* [batch][m], without alpha */
    struct division of_k, of_m;
};

/* The chunk of elements first ... first + count - 1 of a line, as f64. A NaN or infinity of f64
 * becomes NaN; those of other types show in the sums, which cannot overflow. */
static void read_chunk(const struct matrix *x, uint64_t line, uint64_t first, uint64_t count,
                       double wide[CHUNK])
{
    convert_to_f64(x->dtype, x->start + (line * x->ld + first) * dtype_size(x->dtype), wide, count);
    for (uint64_t i = 0; x->dtype == GEMMD_F64 && i < count; i++)
        wide[i] += wide[i] - wide[i];
}

/* The lines that a part reads, and of each line the elements. */
static struct part lines_of(const struct matrix *x, struct part part)
{
    return x->along ? part : (struct part){part.index, 0, x->inner};
}

static struct part chunks_of(const struct matrix *x, struct part part)
{
    return x->along ? (struct part){part.index, 0, x->inner} : part;
}

static uint64_t chunk_after(uint64_t first, uint64_t end)
{
    return end - first < CHUNK ? end - first : CHUNK;
}

/* The functions that return bool return false if the check has to stop. */

/* A part of op(B)*r, whose sums run along the lines of B. */
static bool multiply_b_along(const struct check *c, const struct matrix *b, struct part part,
                             struct team_pace *pace, double *value, double *square,
                             double *absolute)
{
    double wide[CHUNK];
    for (uint64_t line = part.first; line < part.end; line++)
        for (uint64_t at = 0; at < b->inner; at += CHUNK) {
            const uint64_t count = chunk_after(at, b->inner);
            read_chunk(b, line, at, count, wide);
            c->sums->dot(wide, c->r + at, count, &value[line], &square[line], &absolute[line]);
            if (team_pace_stops(pace, count))
                return false;
        }
    return true;
}

/* The same across the lines of B. */
static bool multiply_b_across(const struct check *c, const struct matrix *b, struct part part,
                              struct team_pace *pace, double *value, double *square,
                              double *absolute)
{
    double wide[LINES][CHUNK], v[LINES];
    for (uint64_t line = 0; line < b->inner; line += LINES)
        for (uint64_t at = part.first; at < part.end; at += CHUNK) {
            const uint64_t count = chunk_after(at, part.end);
            for (uint64_t i = 0; i < LINES; i++) { /* beyond the last line: zeros */
                v[i] = line + i < b->inner ? c->r[line + i] : 0;
                if (line + i < b->inner)
                    read_chunk(b, line + i, at, count, wide[i]);
                else
                    memset(wide[i], 0, sizeof wide[i]);
            }
            c->sums->add(wide, v, count, value + at, square + at, absolute + at);
            if (team_pace_stops(pace, LINES * count))
                return false;
        }
    return true;
}

static bool multiply_b(const struct check *c, const struct matrix *b, struct part part,
                       struct team_pace *pace, double *value, double *square, double *absolute)
{
    for (uint64_t i = part.first; i < part.end; i++)
        value[i] = square[i] = absolute[i] = 0;
    return b->along ? multiply_b_along(c, b, part, pace, value, square, absolute)
                    : multiply_b_across(c, b, part, pace, value, square, absolute);
}

/* Replaces the sums of squares by the weights of the bound: the contribution of an element of A for
 * an element of 1. A row of op(B) with an element that is not finite has the sum and the weight
 * NaN. */
static void weigh(const struct check *c, struct part part, double *value, double *square,
                  const double *absolute)
{
    const double own = (double)(c->p->n + c->p->k + 4);
    for (uint64_t i = part.first; i < part.end; i++) {
        /* The sum of magnitudes is an upper limit of the root, where squares overflow. */
        const double root = isfinite(square[i]) ? sqrt(square[i]) : absolute[i];
        square[i] = FREIVALDS_CONFIDENCE * c->rounding.relative * root +
                    own * (FREIVALDS_OWN_ROUNDING * absolute[i] + DBL_TRUE_MIN);
        if (!isfinite(absolute[i]) && c->p->dtype != GEMMD_F64)
            value[i] = square[i] = (double)NAN;
    }
}

static void check_b_part(void *argument, uint64_t number, uint32_t member)
{
    const struct check *c = argument;
    const struct part part = part_of(&c->of_k, number);
    const struct matrix b = b_of(c->p, part.index);
    const uint64_t at = part.index * c->p->k;
    struct team_pace pace = {.team = c->team};
    (void)member;
    if (multiply_b(c, &b, part, &pace, c->value + at, c->square + at, c->absolute + at))
        weigh(c, part, c->value + at, c->square + at, c->absolute + at);
}

/* A part of op(A)*(op(B)*r), and of its bound. */
static bool multiply_a(const struct check *c, const struct matrix *a, struct part part,
                       struct team_pace *pace, uint64_t of_b, double *expected, double *bound)
{
    const struct part lines = lines_of(a, part), chunks = chunks_of(a, part);
    const double *value = c->value + of_b, *weight = c->square + of_b;
    double wide[CHUNK];
    for (uint64_t i = part.first; i < part.end; i++)
        expected[i] = bound[i] = 0;
    for (uint64_t line = lines.first; line < lines.end; line++)
        for (uint64_t at = chunks.first; at < chunks.end;) {
            const uint64_t count = chunk_after(at, chunks.end);
            read_chunk(a, line, at, count, wide);
            if (a->along)
                c->sums->dot_weighted(wide, value + at, weight + at, count, &expected[line],
                                      &bound[line]);
            else
                c->sums->add_weighted(wide, value[line], weight[line], count, expected + at,
                                      bound + at);
            at += count;
            if (team_pace_stops(pace, count))
                return false;
        }
    return true;
}

/* The product of a vector of type `out` and r. The vector is a row of C or C0, or the bias. */
static struct freivalds_dot dot_with_r(const struct check *c, const void *x, double scale)
{
    const struct matrix line = {.dtype = c->p->out, .start = x};
    struct freivalds_dot dot = {.strange = 0};
    struct team_pace pace = {.team = c->team};
    double wide[CHUNK];
    for (uint64_t at = 0; x != NULL && at < c->p->n; at += CHUNK) {
        const uint64_t count = chunk_after(at, c->p->n);
        bool finite = true;
        if (team_pace_stops(&pace, count))
            break;
        read_chunk(&line, 0, at, count, wide);
        for (uint64_t i = 0; i < count; i++) {
            finite &= isfinite(wide[i]) != 0;
            wide[i] *= scale;
        }
        dot.strange |= !finite;
        c->sums->dot(wide, c->r + at, count, &dot.value, &dot.square, &dot.absolute);
    }
    return dot;
}

static double root_of(const struct freivalds_dot *dot)
{
    return isfinite(dot->square) ? sqrt(dot->square) : dot->absolute;
}

static double element(enum gemmd_dtype dtype, const void *data, uint64_t i)
{
    double value;
    convert_to_f64(dtype, (const char *)data + i * dtype_size(dtype), &value, 1);
    return value;
}

/* Whether the magnitudes of one element's summands reach so far that it may have overflowed. */
static bool may_overflow(const struct gemm_problem *p, uint64_t index, uint64_t row,
                         uint64_t column, double largest)
{
    double sum = 0, after = 0;
    for (uint64_t i = 0; i < p->k; i++) {
        const uint64_t in_a = p->transa ? i * p->lda + row : row * p->lda + i;
        const uint64_t in_b = p->transb ? column * p->ldb + i : i * p->ldb + column;
        sum += fabs(element(p->dtype, p->a, index * p->stride_a + in_a) *
                    element(p->dtype, p->b, index * p->stride_b + in_b));
    }
    if (p->beta != 0)
        after +=
            fabs(p->beta * element(p->out, p->c0, index * p->stride_c0 + row * p->ldc0 + column));
    if (p->bias != NULL)
        after += fabs(element(p->out, p->bias, column));
    /* Half: what rounds up to infinity is a little smaller, and so may the magnitudes be. */
    const double limit = largest / 2;
    return !(sum < limit) || !(sum * fabs(p->alpha) + after < limit);
}

static bool overflow_explains(const struct gemm_problem *p, uint64_t index, uint64_t row,
                              const char *c, double largest)
{
    uint64_t seen = 0;
    for (uint64_t j = 0; j < p->n && seen < FREIVALDS_EXPLAINED_MAX; j++) {
        if (isfinite(element(p->out, c, j)))
            continue;
        seen++;
        if (!may_overflow(p, index, row, j, largest))
            return false;
    }
    return true;
}

/* Whether sums of the row may exceed 32 bits. */
static bool may_wrap(const struct gemm_problem *p, uint64_t index, uint64_t row)
{
    if (p->dtype != GEMMD_I8 || p->k < FREIVALDS_WRAPS_K)
        return false;
    const int8_t *a = (const int8_t *)p->a + index * p->stride_a;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->k; i++)
        sum += (uint64_t)abs(a[p->transa ? i * p->lda + row : row * p->lda + i]);
    return sum * 128 > INT32_MAX;
}

static double judge_row(const struct check *c, uint64_t index, uint64_t row)
{
    const struct gemm_problem *p = c->p;
    const uint64_t size = dtype_size(p->out), at = index * p->m + row;
    const char *line = (const char *)p->c + (index * p->stride_c + row * p->ldc) * size;
    const char *line0 =
        p->beta != 0 ? (const char *)p->c0 + (index * p->stride_c0 + row * p->ldc0) * size : NULL;
    const struct freivalds_dot got = dot_with_r(c, line, 1), start = dot_with_r(c, line0, p->beta);
    const struct freivalds_dot *bias = &c->header->bias;
    const double magnitude = fabs(p->alpha);

    const bool strange_operands =
        p->dtype == GEMMD_F64 ? isnan(c->bound[at] * magnitude) : !isfinite(c->bound[at]);
    if (may_wrap(p, index, row))
        return 0;
    if (strange_operands || bias->strange > 0 || start.strange > 0)
        return got.strange == 0 ? (double)INFINITY : 0;
    if (got.strange > 0)
        return overflow_explains(p, index, row, line, c->rounding.largest) ? 0 : (double)INFINITY;

    const double expected = c->expected[at] * p->alpha + start.value + bias->value;
    const double difference = fabs(got.value - expected);
    const double bound = c->bound[at] * magnitude +
                         FREIVALDS_CONFIDENCE *
                             (c->rounding.after * (root_of(&start) + root_of(bias)) +
                              c->rounding.last * root_of(&got) +
                              c->rounding.least * (1 + magnitude) * sqrt(c->header->norm_square)) +
                         (double)(p->n + 4) * FREIVALDS_OWN_ROUNDING *
                             (got.absolute + start.absolute + bias->absolute);
    if (!isfinite(bound) || isnan(difference))
        return 0; /* f64 near its limits: the check itself overflows */
    return difference == 0 ? 0 : difference / bound;
}

static void check_a_part(void *argument, uint64_t number, uint32_t member)
{
    const struct check *c = argument;
    const struct gemm_problem *p = c->p;
    const struct part part = part_of(&c->of_m, number);
    const struct matrix a = a_of(p, part.index);
    const uint64_t of_b = part.index * p->k, at = part.index * p->m;
    struct team_pace pace = {.team = c->team};
    (void)member;
    if (!multiply_a(c, &a, part, &pace, of_b, c->expected + at, c->bound + at))
        return;
    for (uint64_t row = part.first; row < part.end && !team_pace_stops(&pace, p->n); row++)
        c->residuals[at + row] = judge_row(c, part.index, row);
}

static void check_real(struct team *team, const struct gemm_problem *p, uint64_t seed,
                       double *residuals, void *workspace)
{
    const struct matrix a = a_of(p, 0), b = b_of(p, 0);
    struct check c = {.p = p,
                      .sums = sums_of_processor(),
                      .team = team,
                      .rounding = freivalds_rounding_of(p),
                      .header = workspace,
                      .of_k = divide(p->k, &b),
                      .of_m = divide(p->m, &a)};
    const uint64_t rows = p->m * p->batch, ks = p->k * p->batch;
    c.residuals = residuals;
    c.r = (double *)(void *)((char *)workspace + FREIVALDS_ROWS_OFFSET) + rows;
    c.value = c.r + p->n, c.square = c.value + ks, c.absolute = c.square + ks;
    c.expected = c.absolute + ks, c.bound = c.expected + rows;

    *c.header = (struct freivalds_header){.residual = 0};
    struct team_pace pace = {.team = team};
    for (uint64_t j = 0; j < p->n && !team_pace_stops(&pace, DRAW_STEPS); j++) {
        c.r[j] = freivalds_r(p->dtype, seed, j);
        c.header->norm_square += c.r[j] * c.r[j];
    }
    c.header->bias = dot_with_r(&c, p->bias, 1);
    team_run(team, check_b_part, &c, c.of_k.parts * p->batch);
    if (!team_has_stopped(team))
        team_run(team, check_a_part, &c, c.of_m.parts * p->batch);
}

/* ---- i8 to i32: unsigned arithmetic, modulo 2^32 ---- */

struct check_i32 {
    const struct gemm_problem *p;
    const struct sums *sums;
    struct team *team;
    double *residuals;
    uint32_t *r, *br, *expected; /* [n], [number of Bs][k], [batch][m] */
    struct division of_k, of_m;
};

/* A part of the matrix times v. */
static bool multiply_i32(const struct check_i32 *c, const struct matrix *x, struct part part,
                         struct team_pace *pace, const uint32_t *v, uint32_t *out)
{
    const struct part lines = lines_of(x, part), chunks = chunks_of(x, part);
    for (uint64_t i = part.first; i < part.end; i++)
        out[i] = 0;
    for (uint64_t line = lines.first; line < lines.end; line++)
        for (uint64_t at = chunks.first; at < chunks.end;) {
            const uint64_t count = chunk_after(at, chunks.end);
            const int8_t *from = (const int8_t *)x->start + line * x->ld + at;
            if (x->along)
                out[line] += c->sums->dot_i32(from, v + at, count);
            else
                c->sums->add_i32(from, v[line], count, out + at);
            at += count;
            if (team_pace_stops(pace, count))
                return false;
        }
    return true;
}

static void check_b_part_i32(void *argument, uint64_t number, uint32_t member)
{
    const struct check_i32 *c = argument;
    const struct part part = part_of(&c->of_k, number);
    const struct matrix b = b_of(c->p, part.index);
    struct team_pace pace = {.team = c->team};
    (void)member;
    (void)multiply_i32(c, &b, part, &pace, c->r, c->br + part.index * c->p->k);
}

static void check_a_part_i32(void *argument, uint64_t number, uint32_t member)
{
    const struct check_i32 *c = argument;
    const struct gemm_problem *p = c->p;
    const struct part part = part_of(&c->of_m, number);
    const struct matrix a = a_of(p, part.index);
    const uint64_t of_b = part.index * p->k, at = part.index * p->m;
    const uint32_t alpha = (uint32_t)(int64_t)p->alpha, beta = (uint32_t)(int64_t)p->beta;
    const uint32_t *bias = p->bias;
    struct team_pace pace = {.team = c->team};
    (void)member;
    if (!multiply_i32(c, &a, part, &pace, c->br + of_b, c->expected + at))
        return;
    for (uint64_t row = part.first; row < part.end && !team_pace_stops(&pace, p->n); row++) {
        const uint32_t *line = (const uint32_t *)p->c + part.index * p->stride_c + row * p->ldc;
        const uint32_t *line0 =
            p->beta != 0 ? (const uint32_t *)p->c0 + part.index * p->stride_c0 + row * p->ldc0
                         : NULL;
        uint32_t difference = (uint32_t)0 - alpha * c->expected[at + row];
        for (uint64_t j = 0; j < p->n && (j % CHUNK != 0 || !team_pace_stops(&pace, CHUNK)); j++)
            difference +=
                (line[j] - (line0 != NULL ? beta * line0[j] : 0) - (bias != NULL ? bias[j] : 0)) *
                c->r[j];
        /* Half of 1 is the bound: rounding explains nothing here. */
        c->residuals[at + row] = 2 * fabs((double)(int32_t)difference);
    }
}

static void check_integers(struct team *team, const struct gemm_problem *p, uint64_t seed,
                           double *residuals, void *workspace)
{
    const struct matrix a = a_of(p, 0), b = b_of(p, 0);
    const uint64_t rows = p->m * p->batch;
    struct check_i32 c = {.p = p,
                          .sums = sums_of_processor(),
                          .team = team,
                          .of_k = divide(p->k, &b),
                          .of_m = divide(p->m, &a)};
    c.residuals = residuals;
    c.r = (uint32_t *)(void *)((char *)workspace + FREIVALDS_ROWS_OFFSET + rows * sizeof(double));
    c.br = c.r + p->n;
    c.expected = c.br + p->k * p->batch;
    struct team_pace pace = {.team = team};
    for (uint64_t j = 0; j < p->n && !team_pace_stops(&pace, DRAW_STEPS); j++)
        c.r[j] = freivalds_r_i32(seed, j);
    team_run(team, check_b_part_i32, &c, c.of_k.parts * p->batch);
    if (!team_has_stopped(team))
        team_run(team, check_a_part_i32, &c, c.of_m.parts * p->batch);
}

enum gemmd_error cpu_check(struct gemm_context *context, const struct gemm_problem *p,
                           uint64_t seed, double *residuals, void *workspace)
{
    struct team *team = cpu_context_of(context)->team;
    double worst = 0;
    if (residuals == NULL)
        residuals = (double *)(void *)((char *)workspace + FREIVALDS_ROWS_OFFSET);
    (p->out == GEMMD_I32 ? check_integers : check_real)(team, p, seed, residuals, workspace);
    for (uint64_t i = 0; i < p->m * p->batch && !team_has_stopped(team); i++)
        worst = fmax(worst, residuals[i]);
    *(double *)workspace = worst;
    return GEMMD_OK;
}
