#include "client/gemmctl/check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/interrupt.h"
#include "client/gemmctl/widen.h"
#include "proto/dtype.h"

#define WORK_MAX 0x1p32

/* What rounding can explain; see check.h. */
struct rounding {
    double relative; /* error of a sum, relative to the magnitudes of its terms */
    double unit;     /* of the accumulator */
    double last;     /* error of rounding to the result's type, relative to the result */
    double least;    /* the same near 0, absolute */
    double largest;  /* the largest number of the result's type */
};

/* One row of the reference, and the memory that computing the row needs. */
struct reference {
    double *b;               /* [k, n], op(B) of one problem */
    double *a;               /* [k], one row of op(A) */
    double *sum, *magnitude; /* [n] each: sum a b, and sum |a b| */
    double *c, *c0, *bias;   /* [n] each: the result, and what is added */
};

static struct rounding rounding_of(const struct gemm_request *r)
{
    const double k = (double)r->k;
    struct rounding rounding = {.unit = 0x1p-24,
                                .relative = (k + 8) * 0x1p-24,
                                .last = 0x1p-24,
                                .least = (k + 4) * FLT_MIN,
                                .largest = FLT_MAX};
    if (r->dtype == GEMMD_F64)
        rounding = (struct rounding){.unit = 0x1p-53,
                                     .relative = 2 * (k + 8) * 0x1p-53,
                                     .last = 0x1p-53,
                                     .least = (k + 4) * DBL_MIN,
                                     .largest = DBL_MAX};
    else if (r->dtype == GEMMD_I8)
        rounding.relative = 4 * 0x1p-24;
    else if (r->precision == GEMM_PRECISION_TF32)
        rounding.relative += 2.1 * 0x1p-10;
    else if (r->precision == GEMM_PRECISION_F8)
        rounding.relative += 0x1p-6;
    if (r->out == GEMMD_F16) {
        rounding.last = 0x1p-11;
        rounding.least += 0x1p-25;
        rounding.largest = 65504;
    } else if (r->out == GEMMD_BF16) {
        rounding.last = 0x1p-8;
    }
    return rounding;
}

static double activate(enum gemm_act act, double x)
{
    switch (act) {
    case GEMM_ACT_RELU:
        return x > 0 ? x : 0;
    case GEMM_ACT_GELU:
        return x * 0.5 * erfc(-x * M_SQRT1_2);
    case GEMM_ACT_GELU_TANH: /* 1 + tanh z = 2 / (1 + exp(-2 z)) */
        return x / (1 + exp(-2 * sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case GEMM_ACT_SILU:
        return x / (1 + exp(-x));
    case GEMM_ACT_NONE:
        break;
    }
    return x;
}

static bool reference_open(struct reference *reference, const struct gemm_request *r)
{
    *reference = (struct reference){
        .b = reallocarray(NULL, r->k * r->n, sizeof(double)),
        .a = reallocarray(NULL, r->k, sizeof(double)),
        .sum = reallocarray(NULL, r->n, sizeof(double)),
        .magnitude = reallocarray(NULL, r->n, sizeof(double)),
        .c = reallocarray(NULL, r->n, sizeof(double)),
        .c0 = calloc(r->n, sizeof(double)),
        .bias = calloc(r->n, sizeof(double)),
    };
    return reference->b != NULL && reference->a != NULL && reference->sum != NULL &&
           reference->magnitude != NULL && reference->c != NULL && reference->c0 != NULL &&
           reference->bias != NULL;
}

static void reference_close(struct reference *reference)
{
    free(reference->b);
    free(reference->a);
    free(reference->sum);
    free(reference->magnitude);
    free(reference->c);
    free(reference->c0);
    free(reference->bias);
}

/* The matrix of one problem of the batch in an operand: [rows, columns]. */
static const char *matrix_of(const struct tensor *tensor, uint64_t problem, uint64_t rows,
                             uint64_t columns)
{
    return (const char *)tensor->data + problem * rows * columns * dtype_size(tensor->dtype);
}

static void load_b(struct reference *reference, const struct gemm_request *r,
                   const struct gemm_operands *operands, uint64_t problem)
{
    const char *b = matrix_of(&operands->b, problem, r->k, r->n);
    const uint64_t size = dtype_size(r->dtype);
    for (uint64_t i = 0; i < r->k; i++)
        widen(r->dtype, b + i * (operands->transb ? 1 : r->n) * size, operands->transb ? r->k : 1,
              r->n, reference->b + i * r->n);
}

/* Computes sum and magnitude of a row. */
static void sum_row(struct reference *reference, const struct gemm_request *r,
                    const struct gemm_operands *operands, uint64_t problem, uint64_t row)
{
    const char *a = matrix_of(&operands->a, problem, r->m, r->k);
    double *restrict sum = reference->sum, *restrict magnitude = reference->magnitude;
    widen(r->dtype, a + row * (operands->transa ? 1 : r->k) * dtype_size(r->dtype),
          operands->transa ? r->m : 1, r->k, reference->a);
    memset(sum, 0, r->n * sizeof *sum);
    memset(magnitude, 0, r->n * sizeof *magnitude);
    for (uint64_t i = 0; i < r->k; i++) {
        const double factor = reference->a[i];
        const double *restrict b = reference->b + i * r->n;
        for (uint64_t j = 0; j < r->n; j++) {
            const double term = factor * b[j];
            sum[j] += term;
            magnitude[j] += fabs(term);
        }
    }
}

/* The element before the activation, of an accumulator of i32, which wraps. All numbers are whole.
 */
static int32_t wrapped(const struct gemm_request *r, double sum, double c0, double bias)
{
    const uint64_t value = (uint64_t)(int64_t)r->alpha * (uint64_t)(int64_t)sum +
                           (uint64_t)(int64_t)r->beta * (uint64_t)(int64_t)c0 +
                           (uint64_t)(int64_t)bias;
    return (int32_t)(uint32_t)value;
}

/* Sets what element `j` has to be, and how far the result may be away. False: the operands have
 * infinities or NaNs. */
static bool expect(const struct gemm_request *r, const struct rounding *rounding,
                   const struct reference *reference, uint64_t j, double *expected, double *allowed)
{
    const double c0 = reference->c0[j], bias = reference->bias[j];
    double sum = reference->sum[j];
    if (r->out == GEMMD_I32) {
        *expected = activate(r->act, wrapped(r, sum, c0, bias));
        *allowed = 0;
        return true;
    }
    if (r->dtype == GEMMD_I8)
        sum = (double)(int32_t)(uint32_t)(int64_t)sum; /* the accumulator is i32 */
    const double x = r->alpha * sum + r->beta * c0 + bias;
    const double scale = fabs(r->alpha) * reference->magnitude[j] + fabs(r->beta * c0) + fabs(bias);
    if (!isfinite(scale))
        return false;
    double error = rounding->relative * scale;
    if (r->act != GEMM_ACT_NONE && r->act != GEMM_ACT_RELU)
        error = 1.13 * error + 16 * rounding->unit * (fabs(x) + error);
    *expected = activate(r->act, x);
    *allowed = error + rounding->last * (fabs(*expected) + error) + rounding->least;
    return true;
}

/* Whether an infinite element is right, since the value may exceed the type's largest number. */
static bool may_overflow(const struct rounding *rounding, double found, double expected,
                         double allowed)
{
    return isinf(found) && fabs(expected) + allowed >= rounding->largest &&
           signbit(found) == signbit(expected);
}

static void compare_row(const struct gemm_request *r, const struct rounding *rounding,
                        const struct reference *reference, uint64_t problem, uint64_t row,
                        struct check *check)
{
    double expected, allowed;
    for (uint64_t j = 0; j < r->n; j++) {
        const double found = reference->c[j];
        if (!expect(r, rounding, reference, j, &expected, &allowed)) {
            check->skipped++;
            continue;
        }
        check->elements++;
        const double error = fabs(found - expected);
        if (error <= allowed) {
            if (allowed > 0)
                check->largest = fmax(check->largest, error / allowed);
        } else if (!may_overflow(rounding, found, expected, allowed) && check->wrong++ == 0) {
            check->problem = problem;
            check->row = row;
            check->column = j;
            check->found = found;
            check->expected = expected;
            check->allowed = allowed;
        }
    }
}

/* The number of rows from one row that is checked to the next. */
static uint64_t stride_of(const struct gemm_request *r)
{
    const double work = (double)r->batch * (double)r->m * (double)r->n * (double)r->k;
    return work > WORK_MAX ? (uint64_t)ceil(work / WORK_MAX) : 1;
}

enum gemmd_error check_product(const struct gemm_request *request,
                               const struct gemm_operands *operands, const void *c,
                               struct progress_line *line, struct check *check)
{
    const struct gemm_request *r = request;
    const struct rounding rounding = rounding_of(r);
    const uint64_t stride = stride_of(r), out_size = dtype_size(r->out);
    struct reference reference;
    enum gemmd_error code = GEMMD_OK;
    *check = (struct check){.rows = r->batch * r->m};
    if (!reference_open(&reference, r)) {
        reference_close(&reference);
        return GEMMD_ERR_OUT_OF_MEMORY;
    }
    if (operands->bias.data != NULL)
        widen(r->out, operands->bias.data, 1, r->n, reference.bias);
    uint64_t loaded = UINT64_MAX;
    for (uint64_t at = 0; at < check->rows && code == GEMMD_OK; at += stride) {
        const uint64_t problem = at / r->m, row = at % r->m;
        if (problem != loaded)
            load_b(&reference, r, operands, problem);
        loaded = problem;
        sum_row(&reference, r, operands, problem, row);
        if (operands->c0.data != NULL)
            widen(r->out, (const char *)operands->c0.data + at * r->n * out_size, 1, r->n,
                  reference.c0);
        widen(r->out, (const char *)c + at * r->n * out_size, 1, r->n, reference.c);
        compare_row(r, &rounding, &reference, problem, row, check);
        check->rows_checked++;
        progress_part(line, "checking", at + 1, check->rows, NULL);
        if (interrupt_asked())
            code = GEMMD_ERR_CANCELLED;
    }
    reference_close(&reference);
    return code;
}
