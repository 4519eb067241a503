#include "kernels/cpu/cpu_epilogue.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "proto/dtype.h"

enum { CHUNK = 128 };

union chunk {
    double f64[CHUNK];
    float f32[CHUNK];
    uint32_t u32[CHUNK]; /* i32: unsigned, since it wraps */
};

/* The smooth activations are all x times a weight in [0, 1] that falls to 0 at the left. Written
 * so, the limit at minus infinity is 0 and not the NaN of infinity times 0, and nothing cancels:
 * erfc and exp keep their relative accuracy where 1 + erf and 1 + tanh would lose theirs. */

static float weigh_f32(float x, float weight)
{
    return weight == 0 ? copysignf(0, x) : x * weight;
}

static double weigh_f64(double x, double weight)
{
    return weight == 0 ? copysign(0, x) : x * weight;
}

static float sigmoid_f32(float x)
{
    float e = expf(-fabsf(x)); /* never overflows */
    return (x < 0 ? e : 1) / (1 + e);
}

static double sigmoid_f64(double x)
{
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

#define SQRT_HALF 0.70710678118654752440
#define SQRT_8_OVER_PI 1.59576912160573071176
#define CUBIC 0.044715 /* of the tanh approximation */

static float activate_f32(enum gemm_act act, float x)
{
    switch (act) {
    case GEMM_ACT_RELU:
        return x < 0 ? 0 : x; /* NaN stays */
    case GEMM_ACT_GELU:
        return weigh_f32(x, 0.5f * erfcf(-x * (float)SQRT_HALF));
    case GEMM_ACT_GELU_TANH: /* (1 + tanh(y)) / 2 = sigmoid(2 y) */
        return weigh_f32(x, sigmoid_f32((float)SQRT_8_OVER_PI * (x + (float)CUBIC * x * x * x)));
    case GEMM_ACT_SILU:
        return weigh_f32(x, sigmoid_f32(x));
    case GEMM_ACT_NONE:
        break;
    }
    return x;
}

static double activate_f64(enum gemm_act act, double x)
{
    switch (act) {
    case GEMM_ACT_RELU:
        return x < 0 ? 0 : x;
    case GEMM_ACT_GELU:
        return weigh_f64(x, 0.5 * erfc(-x * SQRT_HALF));
    case GEMM_ACT_GELU_TANH:
        return weigh_f64(x, sigmoid_f64(SQRT_8_OVER_PI * (x + CUBIC * x * x * x)));
    case GEMM_ACT_SILU:
        return weigh_f64(x, sigmoid_f64(x));
    case GEMM_ACT_NONE:
        break;
    }
    return x;
}

/* Each function computes the complete epilogue of a chunk. `c0` and `bias` are NULL if the problem
 * has none. */

static void finish_f32(const struct gemm_problem *problem, float *x, const float *c0,
                       const float *bias, uint64_t count)
{
    const float alpha = (float)problem->alpha, beta = (float)problem->beta;
    for (uint64_t i = 0; i < count; i++)
        x[i] *= alpha;
    for (uint64_t i = 0; c0 != NULL && i < count; i++)
        x[i] += beta * c0[i];
    for (uint64_t i = 0; bias != NULL && i < count; i++)
        x[i] += bias[i];
    for (uint64_t i = 0; problem->act != GEMM_ACT_NONE && i < count; i++)
        x[i] = activate_f32(problem->act, x[i]);
}

static void finish_f64(const struct gemm_problem *problem, double *x, const double *c0,
                       const double *bias, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        x[i] *= problem->alpha;
    for (uint64_t i = 0; c0 != NULL && i < count; i++)
        x[i] += problem->beta * c0[i];
    for (uint64_t i = 0; bias != NULL && i < count; i++)
        x[i] += bias[i];
    for (uint64_t i = 0; problem->act != GEMM_ACT_NONE && i < count; i++)
        x[i] = activate_f64(problem->act, x[i]);
}

static void finish_i32(const struct gemm_problem *problem, uint32_t *x, const uint32_t *c0,
                       const uint32_t *bias, uint64_t count)
{
    const uint32_t alpha = (uint32_t)(int64_t)problem->alpha;
    const uint32_t beta = (uint32_t)(int64_t)problem->beta;
    for (uint64_t i = 0; i < count; i++)
        x[i] *= alpha;
    for (uint64_t i = 0; c0 != NULL && i < count; i++)
        x[i] += beta * c0[i];
    for (uint64_t i = 0; bias != NULL && i < count; i++)
        x[i] += bias[i];
    for (uint64_t i = 0; problem->act == GEMM_ACT_RELU && i < count; i++)
        x[i] = x[i] >> 31 != 0 ? 0 : x[i];
}

/* Multiplies sums of a row of op(A) by the factors of the row and of their columns. */
static void scale_sums(const struct gemm_problem *problem, uint64_t index, uint64_t row,
                       uint64_t column, uint64_t count, float *x)
{
    const struct gemm_scale *a = &problem->a_scale, *b = &problem->b_scale;
    const float of_row = a->data[index * a->stride + row * a->step];
    const float *of_columns = b->data + index * b->stride + column * b->step;
    for (uint64_t i = 0; i < count; i++)
        x[i] = x[i] * of_row * of_columns[i * b->step];
}

static void load_sums(enum gemmd_dtype accumulator, enum gemmd_dtype compute, const char *sums,
                      uint64_t first, uint64_t count, union chunk *x)
{
    if (accumulator == compute) {
        memcpy(x, sums + first * dtype_size(compute), count * dtype_size(compute));
        return;
    }
    const int32_t *integers = (const int32_t *)(const void *)sums + first;
    for (uint64_t i = 0; i < count; i++)
        x->f32[i] = (float)integers[i];
}

void epilogue_row(const struct gemm_problem *problem, uint64_t index, uint64_t row, uint64_t column,
                  uint64_t count, const void *sums)
{
    const enum gemmd_dtype accumulator = dtype_accumulator(problem->dtype);
    const enum gemmd_dtype compute = dtype_accumulator(problem->out);
    const uint32_t size = dtype_size(problem->out);
    char *c = (char *)problem->c + (index * problem->stride_c + row * problem->ldc + column) * size;
    const char *c0 = NULL, *bias = NULL;
    if (problem->beta != 0)
        c0 = (const char *)problem->c0 +
             (index * problem->stride_c0 + row * problem->ldc0 + column) * size;
    if (problem->bias != NULL)
        bias = (const char *)problem->bias + column * size;

    union chunk x, wide_c0, wide_bias;
    for (uint64_t done = 0; done < count; done += CHUNK) {
        uint64_t now = count - done < CHUNK ? count - done : CHUNK;
        load_sums(accumulator, compute, sums, done, now, &x);
        if (problem->scales == GEMM_SCALES_ROWCOL)
            scale_sums(problem, index, row, column + done, now, x.f32);
        if (c0 != NULL)
            convert_widen(problem->out, c0 + done * size, &wide_c0, now);
        if (bias != NULL)
            convert_widen(problem->out, bias + done * size, &wide_bias, now);
        if (compute == GEMMD_F64)
            finish_f64(problem, x.f64, c0 != NULL ? wide_c0.f64 : NULL,
                       bias != NULL ? wide_bias.f64 : NULL, now);
        else if (compute == GEMMD_F32)
            finish_f32(problem, x.f32, c0 != NULL ? wide_c0.f32 : NULL,
                       bias != NULL ? wide_bias.f32 : NULL, now);
        else
            finish_i32(problem, x.u32, c0 != NULL ? wide_c0.u32 : NULL,
                       bias != NULL ? wide_bias.u32 : NULL, now);
        convert_narrow(problem->out, &x, c + done * size, now);
    }
}
