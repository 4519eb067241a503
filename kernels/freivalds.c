#include "kernels/freivalds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/convert.h"
#include "kernels/freivalds_parts.h"
#include "proto/dtype.h"

enum { CHUNK = 256 }; /* elements widened at a time */

/* A vector times one problem's matrix, with the sums that bound the product's error. */
struct sums {
    double *value;    /* sum of x * v; NaN if one of x is not finite */
    double *square;   /* sum of (x * v)^2, then the weight in the bound */
    double *absolute; /* sum of |x * v| */
};

struct vectors {
    double *r;        /* [n] */
    struct sums b;    /* [k], op(B) * r */
    double *expected; /* [m], alpha * op(A) * op(B) * r; NaN if an operand is not finite */
    double *bound;    /* [m] */
};

static void add_b(const struct sums *s, uint64_t i, double x, double v)
{
    const double product = (isfinite(x) ? x : (double)NAN) * v;
    s->value[i] += product;
    s->square[i] += product * product;
    s->absolute[i] += fabs(product);
}

/* op(B) * r, line by line as B is stored. */
static void multiply_b(const struct gemm_problem *p, const char *b, const struct vectors *v)
{
    const uint64_t lines = p->transb ? p->n : p->k, length = p->transb ? p->k : p->n;
    const uint64_t size = dtype_size(p->dtype);
    double wide[CHUNK];

    for (uint64_t i = 0; i < p->k; i++)
        v->b.value[i] = v->b.square[i] = v->b.absolute[i] = 0;
    for (uint64_t line = 0; line < lines; line++) {
        for (uint64_t start = 0; start < length; start += CHUNK) {
            const uint64_t count = length - start < CHUNK ? length - start : CHUNK;
            convert_to_f64(p->dtype, b + (line * p->ldb + start) * size, wide, count);
            for (uint64_t i = 0; i < count; i++)
                if (p->transb)
                    add_b(&v->b, start + i, wide[i], v->r[line]);
                else
                    add_b(&v->b, line, wide[i], v->r[start + i]);
        }
    }
}

/* The contribution to the bound of an element of A times row i of op(B), for an element of 1. */
static double weight_of(const struct gemm_problem *p, const struct freivalds_rounding *rounding,
                        const struct sums *b, uint64_t i)
{
    /* The sum of magnitudes is an upper limit of the root, and stands in where squares overflow. */
    const double root = isfinite(b->square[i]) ? sqrt(b->square[i]) : b->absolute[i];
    return FREIVALDS_CONFIDENCE * rounding->relative * root +
           (double)(p->n + p->k + 4) * (FREIVALDS_OWN_ROUNDING * b->absolute[i] + DBL_TRUE_MIN);
}

/* op(A) * (op(B) * r) and the bound, line by line as A is stored. */
static void multiply_a(const struct gemm_problem *p, const char *a,
                       const struct freivalds_rounding *rounding, const struct vectors *v)
{
    const uint64_t lines = p->transa ? p->k : p->m, length = p->transa ? p->m : p->k;
    const uint64_t size = dtype_size(p->dtype);
    double wide[CHUNK], *weight = v->b.square;

    for (uint64_t i = 0; i < p->k; i++)
        weight[i] = weight_of(p, rounding, &v->b, i);
    for (uint64_t i = 0; i < p->m; i++)
        v->expected[i] = v->bound[i] = 0;
    for (uint64_t line = 0; line < lines; line++) {
        for (uint64_t start = 0; start < length; start += CHUNK) {
            const uint64_t count = length - start < CHUNK ? length - start : CHUNK;
            convert_to_f64(p->dtype, a + (line * p->lda + start) * size, wide, count);
            for (uint64_t i = 0; i < count; i++) {
                const uint64_t row = p->transa ? start + i : line;
                const uint64_t inner = p->transa ? line : start + i;
                const double x = isfinite(wide[i]) ? wide[i] : (double)NAN;
                v->expected[row] += x * v->b.value[inner];
                v->bound[row] += fabs(x) * weight[inner];
            }
        }
    }
    for (uint64_t i = 0; i < p->m; i++) {
        v->expected[i] *= p->alpha;
        v->bound[i] *= fabs(p->alpha);
    }
}

/* The product of a vector and r. The vector is a row of C or C0, or the bias. */
struct dot {
    double value, square, absolute;
    bool finite; /* whether all elements were finite */
};

static struct dot dot_with_r(const struct gemm_problem *p, const void *x, double scale,
                             const double *r)
{
    struct dot dot = {.finite = true};
    double wide[CHUNK];
    for (uint64_t start = 0; x != NULL && start < p->n; start += CHUNK) {
        const uint64_t count = p->n - start < CHUNK ? p->n - start : CHUNK;
        convert_to_f64(p->out, (const char *)x + start * dtype_size(p->out), wide, count);
        for (uint64_t i = 0; i < count; i++) {
            const double product = scale * wide[i] * r[start + i];
            dot.finite = dot.finite && isfinite(wide[i]);
            dot.value += product;
            dot.square += product * product;
            dot.absolute += fabs(product);
        }
    }
    return dot;
}

static double root_of(const struct dot *dot)
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

static double judge_row(const struct gemm_problem *p, uint64_t index, uint64_t row,
                        const struct freivalds_rounding *rounding, const struct vectors *v,
                        const struct dot *bias, double r_norm)
{
    const uint64_t size = dtype_size(p->out);
    const char *c = (const char *)p->c + (index * p->stride_c + row * p->ldc) * size;
    const char *c0 =
        p->beta != 0 ? (const char *)p->c0 + (index * p->stride_c0 + row * p->ldc0) * size : NULL;
    const struct dot got = dot_with_r(p, c, 1, v->r), start = dot_with_r(p, c0, p->beta, v->r);

    if (isnan(v->bound[row]) || !bias->finite || !start.finite)
        return got.finite ? (double)INFINITY : 0;
    if (!got.finite)
        return overflow_explains(p, index, row, c, rounding->largest) ? 0 : (double)INFINITY;

    const double expected = v->expected[row] + start.value + bias->value;
    const double difference = fabs(got.value - expected);
    const double bound =
        v->bound[row] +
        FREIVALDS_CONFIDENCE *
            (rounding->after * (root_of(&start) + root_of(bias)) + rounding->last * root_of(&got) +
             rounding->least * (1 + fabs(p->alpha)) * r_norm) +
        (double)(p->n + 4) * FREIVALDS_OWN_ROUNDING *
            (got.absolute + start.absolute + bias->absolute);
    if (!isfinite(bound) || isnan(difference))
        return 0; /* f64 near its limits: the check itself overflows */
    return difference == 0 ? 0 : difference / bound;
}

/* Whether sums of the row may exceed 32 bits. */
static bool may_wrap(const struct gemm_problem *p, const int8_t *a, uint64_t row)
{
    if (p->dtype != GEMMD_I8 || p->k < FREIVALDS_WRAPS_K)
        return false;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < p->k; i++)
        sum += (uint64_t)abs(a[p->transa ? i * p->lda + row : row * p->lda + i]);
    return sum * 128 > INT32_MAX;
}

static double check_one(const struct gemm_problem *p, uint64_t index, const struct vectors *v)
{
    const struct freivalds_rounding rounding = freivalds_rounding_of(p);
    const uint64_t size = dtype_size(p->dtype);
    const char *a = (const char *)p->a + index * p->stride_a * size;
    const struct dot bias = dot_with_r(p, p->bias, 1, v->r);
    double worst = 0, r_norm = 0;

    for (uint64_t j = 0; j < p->n; j++)
        r_norm += v->r[j] * v->r[j];
    r_norm = sqrt(r_norm);
    multiply_b(p, (const char *)p->b + index * p->stride_b * size, v);
    multiply_a(p, a, &rounding, v);
    for (uint64_t row = 0; row < p->m; row++)
        if (!may_wrap(p, (const int8_t *)a, row))
            worst = fmax(worst, judge_row(p, index, row, &rounding, v, &bias, r_norm));
    return worst;
}

static enum gemmd_error check_real(const struct gemm_problem *p, uint64_t seed, double *residual)
{
    struct vectors v = {
        .r = calloc(p->n, sizeof(double)),
        .b = {.value = calloc(p->k, sizeof(double)),
              .square = calloc(p->k, sizeof(double)),
              .absolute = calloc(p->k, sizeof(double))},
        .expected = calloc(p->m, sizeof(double)),
        .bound = calloc(p->m, sizeof(double)),
    };
    enum gemmd_error code = GEMMD_ERR_OUT_OF_MEMORY;
    if (v.r == NULL || v.b.value == NULL || v.b.square == NULL || v.b.absolute == NULL ||
        v.expected == NULL || v.bound == NULL)
        goto out;
    for (uint64_t j = 0; j < p->n; j++)
        v.r[j] = freivalds_r(p->dtype, seed, j);
    *residual = 0;
    for (uint64_t index = 0; index < p->batch; index++)
        *residual = fmax(*residual, check_one(p, index, &v));
    code = GEMMD_OK;
out:
    free(v.r);
    free(v.b.value);
    free(v.b.square);
    free(v.b.absolute);
    free(v.expected);
    free(v.bound);
    return code;
}

enum gemmd_error freivalds_check(const struct gemm_problem *problem, uint64_t seed, bool *pass,
                                 double *residual)
{
    enum gemmd_error code = problem->out == GEMMD_I32 ? freivalds_check_i32(problem, seed, residual)
                                                      : check_real(problem, seed, residual);
    *pass = code == GEMMD_OK && *residual <= 1;
    return code;
}
