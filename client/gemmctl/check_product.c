#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemmctl/check_parts.h"
#include "client/gemmctl/progress.h"
#include "proto/dtype.h"

/* One row of the reference, and the memory that computing the row needs. */
struct reference {
    double *b;                   /* [k, n], op(B) of one problem, times the scales of its blocks */
    double *a;                   /* [k], one row of op(A), times the scales of its blocks */
    double *sum, *magnitude;     /* [n] each: sum a b, and sum |a b| */
    double *c, *c0, *bias;       /* [n] each: the result, and what is added */
    double *a_factor, *b_factor; /* scales of rows and columns: [m], [n]; 1: no scales */
};

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
        .a_factor = reallocarray(NULL, r->m, sizeof(double)),
        .b_factor = reallocarray(NULL, r->n, sizeof(double)),
    };
    if (reference->b == NULL || reference->a == NULL || reference->sum == NULL ||
        reference->magnitude == NULL || reference->c == NULL || reference->c0 == NULL ||
        reference->bias == NULL || reference->a_factor == NULL || reference->b_factor == NULL)
        return false;
    for (uint64_t i = 0; i < r->m; i++)
        reference->a_factor[i] = 1;
    for (uint64_t j = 0; j < r->n; j++)
        reference->b_factor[j] = 1;
    return true;
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
    free(reference->a_factor);
    free(reference->b_factor);
}

/* The matrix of one problem of the batch in an operand: [rows, columns]. */
static const char *matrix_of(const struct tensor *tensor, uint64_t problem, uint64_t rows,
                             uint64_t columns)
{
    return (const char *)tensor->data + problem * rows * columns * dtype_size(tensor->dtype);
}

/* The scale of a block, of scales that lie as [rows, columns], or transposed. */
static double block_scale(const char *scales, uint64_t row, uint64_t column, uint64_t rows,
                          uint64_t columns, bool transposed)
{
    double scale;
    const uint64_t at = transposed ? column * rows + row : row * columns + column;
    widen(GEMMD_F32, scales + at * sizeof(float), 1, 1, &scale);
    return scale;
}

static void load_b(struct reference *reference, const struct gemm_request *r,
                   const struct gemm_operands *operands, uint64_t problem)
{
    const char *b = matrix_of(&operands->b, problem, r->k, r->n);
    const uint64_t size = dtype_size(r->dtype), blocks = gemm_scale_blocks(r->k);
    const uint64_t across = gemm_scale_blocks(r->n);
    for (uint64_t i = 0; i < r->k; i++)
        widen(r->dtype, b + i * (operands->transb ? 1 : r->n) * size, operands->transb ? r->k : 1,
              r->n, reference->b + i * r->n);
    if (r->scales == GEMM_SCALES_ROWCOL) {
        widen(GEMMD_F32, matrix_of(&operands->a_scale, problem, r->m, 1), 1, r->m,
              reference->a_factor);
        widen(GEMMD_F32, matrix_of(&operands->b_scale, problem, 1, r->n), 1, r->n,
              reference->b_factor);
    } else if (r->scales == GEMM_SCALES_BLOCK) {
        const char *scales = matrix_of(&operands->b_scale, problem, blocks, across);
        for (uint64_t i = 0; i < r->k; i++)
            for (uint64_t j = 0; j < r->n; j++)
                reference->b[i * r->n + j] *=
                    block_scale(scales, i / GEMM_SCALE_BLOCK, j / GEMM_SCALE_BLOCK, blocks, across,
                                operands->transb);
    }
}

/* Reads a row of op(A). */
static void load_a(struct reference *reference, const struct gemm_request *r,
                   const struct gemm_operands *operands, uint64_t problem, uint64_t row)
{
    const char *a = matrix_of(&operands->a, problem, r->m, r->k);
    const uint64_t blocks = gemm_scale_blocks(r->k);
    widen(r->dtype, a + row * (operands->transa ? 1 : r->k) * dtype_size(r->dtype),
          operands->transa ? r->m : 1, r->k, reference->a);
    if (r->scales != GEMM_SCALES_BLOCK)
        return;
    const char *scales = matrix_of(&operands->a_scale, problem, r->m, blocks);
    for (uint64_t i = 0; i < r->k; i++)
        reference->a[i] *=
            block_scale(scales, row, i / GEMM_SCALE_BLOCK, r->m, blocks, operands->transa);
}

/* Computes sum and magnitude of a row. */
static void sum_row(struct reference *reference, const struct gemm_request *r)
{
    double *restrict sum = reference->sum, *restrict magnitude = reference->magnitude;
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

static void compare_row(const struct check_epilogue *epilogue, const struct reference *reference,
                        uint64_t n, uint64_t at, double a_factor, struct check *check)
{
    for (uint64_t j = 0; j < n; j++) {
        const double factor = a_factor * reference->b_factor[j];
        const struct check_terms terms = {
            .sum = reference->sum[j],
            .magnitude = reference->magnitude[j] * factor,
            .factor = factor,
            .c0 = reference->c0[j],
            .bias = reference->bias[j],
        };
        check_epilogue_compare(epilogue, check, at * n + j, reference->c[j], &terms);
    }
}

enum gemmd_error check_product(const struct gemm_request *request,
                               const struct gemm_operands *operands, const void *c,
                               struct progress_line *line, struct check *check)
{
    const struct gemm_request *r = request;
    const uint64_t out_size = dtype_size(r->out);
    const uint64_t stride =
        check_stride((double)r->batch * (double)r->m * (double)r->n * (double)r->k);
    struct check_epilogue epilogue = {.dtype = r->dtype,
                                      .out = r->out,
                                      .precision = r->precision,
                                      .act = r->act,
                                      .alpha = r->alpha,
                                      .beta = r->beta,
                                      .k = r->k,
                                      .scaled = r->scales != GEMM_SCALES_NONE};
    struct reference reference;
    enum gemmd_error code = GEMMD_OK;
    *check = (struct check){.rows = r->batch * r->m};
    check_epilogue_settle(&epilogue);
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
        load_a(&reference, r, operands, problem, row);
        sum_row(&reference, r);
        if (operands->c0.data != NULL)
            widen(r->out, (const char *)operands->c0.data + at * r->n * out_size, 1, r->n,
                  reference.c0);
        widen(r->out, (const char *)c + at * r->n * out_size, 1, r->n, reference.c);
        compare_row(&epilogue, &reference, r->n, at, reference.a_factor[row], check);
        check->rows_checked++;
        progress_part(line, "checking", at + 1, check->rows, NULL);
        if (interrupt_asked())
            code = GEMMD_ERR_CANCELLED;
    }
    reference_close(&reference);
    return code;
}
