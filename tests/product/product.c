#include "tests/product/product.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/freivalds.h"
#include "proto/dtype.h"
#include "tests/product/random.h"

enum { GUARD = 512, POISON_FLOAT = 0xff, POISON_INTEGER = 0x7f };

/* Bytes that are NaN in every floating type, and in integers a value like any other that only a
 * comparison with the original finds out. */
static int poison_of(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_I8 || dtype == GEMMD_I32 ? POISON_INTEGER : POISON_FLOAT;
}

struct layout {
    enum gemmd_dtype dtype;
    uint64_t rows, columns, ld, stride, batch;
};

static uint64_t scale_blocks(uint64_t extent)
{
    return (extent + GEMM_SCALE_BLOCK - 1) / GEMM_SCALE_BLOCK;
}

/* Scales of `lines` lines as rows in memory. */
static struct layout scale_layout(const struct gemm_problem *p, const struct gemm_scale *scale,
                                  uint64_t lines)
{
    const uint64_t k = scale_blocks(p->k);
    if (p->scales == GEMM_SCALES_ROWCOL)
        return (struct layout){GEMMD_F32, 1, lines, scale->stride, scale->stride, p->batch};
    return scale->k_step == 1
               ? (struct layout){GEMMD_F32, lines, k, scale->step, scale->stride, p->batch}
               : (struct layout){GEMMD_F32, k, lines, scale->k_step, scale->stride, p->batch};
}

static struct layout layout_of(const struct gemm_problem *p, enum product_part part)
{
    const bool block = p->scales == GEMM_SCALES_BLOCK;
    switch (part) {
    case PRODUCT_A:
        return (struct layout){
            p->dtype, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->lda, p->stride_a,
            p->batch};
    case PRODUCT_B:
        return (struct layout){
            p->dtype, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->ldb, p->stride_b,
            p->batch};
    case PRODUCT_BIAS:
        return (struct layout){p->out, 1, p->n, p->n, p->n, 1};
    case PRODUCT_C0:
        return (struct layout){p->out, p->m, p->n, p->ldc0, p->stride_c0, p->batch};
    case PRODUCT_A_SCALE:
        return scale_layout(p, &p->a_scale, p->m);
    case PRODUCT_B_SCALE:
        return scale_layout(p, &p->b_scale, block ? scale_blocks(p->n) : p->n);
    default:
        return (struct layout){p->out, p->m, p->n, p->ldc, p->stride_c, p->batch};
    }
}

static void put(enum gemmd_dtype dtype, void *to, uint64_t i, double value)
{
    switch (dtype) {
    case GEMMD_F64:
        ((double *)to)[i] = value;
        break;
    case GEMMD_F32:
        ((float *)to)[i] = (float)value;
        break;
    case GEMMD_F16:
        ((uint16_t *)to)[i] = convert_f32_to_f16((float)value);
        break;
    case GEMMD_BF16:
        ((uint16_t *)to)[i] = convert_f32_to_bf16((float)value);
        break;
    case GEMMD_I8:
        ((int8_t *)to)[i] = (int8_t)value;
        break;
    case GEMMD_I32:
        ((int32_t *)to)[i] = (int32_t)value;
        break;
    default:
        break; /* f8 is drawn as bits */
    }
}

static double special(uint64_t random)
{
    const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0};
    return values[random % 5];
}

static void fill_element(enum gemmd_dtype dtype, enum product_fill fill, uint64_t *seed,
                         unsigned char *to, uint64_t i)
{
    const uint64_t random = random_next(seed);
    const bool odd_one = fill == PRODUCT_SPECIAL && random >> 56 < 4;
    double value = random_unit(seed);
    if (dtype == GEMMD_I8)
        value = fill == PRODUCT_EXTREME ? -128 : (double)(int8_t)random;
    else if (dtype == GEMMD_I32)
        value = (double)(int32_t)random;
    else if (odd_one)
        value = special(random);
    else if (fill == PRODUCT_EXTREME)
        value *= 300;
    if (dtype == GEMMD_F8_E4M3) {
        /* Bits up to 0x38, which is 1; 0x7f is NaN, and there is no infinity. */
        to[i] = odd_one ? 0x7f : (unsigned char)((random & 0x80) | (random >> 8) % 0x39);
        return;
    }
    put(dtype, to, i, value);
}

static bool is_scale(enum product_part part)
{
    return part == PRODUCT_A_SCALE || part == PRODUCT_B_SCALE;
}

static bool allocate(struct product *product, enum product_part part, enum product_fill fill,
                     uint64_t seed)
{
    const struct layout l = layout_of(&product->problem, part);
    const uint64_t size = dtype_size(l.dtype);
    struct product_buffer *buffer = &product->buffers[part];
    buffer->bytes = 2 * GUARD + l.batch * l.stride * size;
    buffer->offset = GUARD;
    buffer->data = aligned_alloc(256, (buffer->bytes + 255) / 256 * 256);
    if (buffer->data == NULL)
        return false;
    memset(buffer->data, poison_of(l.dtype), buffer->bytes);
    if (part == PRODUCT_C || (part == PRODUCT_C0 && product->problem.beta == 0))
        return true; /* C0 is there all the same, to show if it is read */
    for (uint64_t index = 0; index < l.batch; index++)
        for (uint64_t row = 0; row < l.rows; row++)
            for (uint64_t column = 0; column < l.columns; column++) {
                const uint64_t i = index * l.stride + row * l.ld + column;
                if (is_scale(part))
                    put(l.dtype, buffer->data + GUARD, i, exp2(3 * random_unit(&seed)));
                else
                    fill_element(l.dtype, fill, &seed, buffer->data + GUARD, i);
            }
    return true;
}

/* Leaves `gap` elements between the rows of scales and between problems. */
static void space_out(struct gemm_scale *scale, enum gemm_scales scales, uint64_t gap)
{
    uint64_t *row = scale->k_step == 1 ? &scale->step : &scale->k_step;
    if (scales == GEMM_SCALES_BLOCK && *row > 0) {
        scale->stride = scale->stride / *row * (*row + gap);
        *row += gap;
    }
    scale->stride += gap;
}

static void lay_out(struct gemm_problem *p, uint64_t gap)
{
    gemm_problem_contiguous(p);
    p->lda += gap;
    p->ldb += gap;
    p->ldc0 += gap;
    p->ldc += 2 * gap; /* another than c0's, so that a mix-up shows */
    p->stride_a = p->lda * ((p->transa ? p->k : p->m) + gap);
    p->stride_b = p->ldb * ((p->transb ? p->n : p->k) + gap);
    p->stride_c0 = p->ldc0 * (p->m + gap);
    p->stride_c = p->ldc * (p->m + gap);
    gemm_problem_scales_contiguous(p, p->transa, p->transb);
    space_out(&p->a_scale, p->scales, gap);
    space_out(&p->b_scale, p->scales, gap);
}

static long double sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double activate(enum gemm_act act, long double x)
{
    if (x == -(long double)INFINITY && act != GEMM_ACT_NONE)
        return 0; /* the limit, where the formulas say infinity times 0 */
    switch (act) {
    case GEMM_ACT_RELU:
        return x < 0 ? 0 : x;
    case GEMM_ACT_GELU:
        return x / 2 * erfcl(-x / sqrtl(2));
    case GEMM_ACT_GELU_TANH:
        return x * sigmoid(2 * sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x));
    case GEMM_ACT_SILU:
        return x * sigmoid(x);
    case GEMM_ACT_NONE:
        break;
    }
    return x;
}

static double at(const struct gemm_problem *p, enum product_part part, const void *data,
                 uint64_t index, uint64_t row, uint64_t column)
{
    const struct layout l = layout_of(p, part);
    double value;
    convert_to_f64(l.dtype,
                   (const char *)data +
                       (index * l.stride + row * l.ld + column) * dtype_size(l.dtype),
                   &value, 1);
    return value;
}

/* Modulo 2^32, as a signed number. */
static double wrap(int64_t value)
{
    return (double)(int32_t)(uint32_t)(uint64_t)value;
}

/* The factor of a line for step p of k. */
static long double scale_at(const struct gemm_problem *p, bool of_b, uint64_t index, uint64_t line,
                            uint64_t k)
{
    const struct gemm_scale *scale = of_b ? &p->b_scale : &p->a_scale;
    const uint64_t block = of_b && p->scales == GEMM_SCALES_BLOCK ? line / GEMM_SCALE_BLOCK : line;
    return scale
        ->data[index * scale->stride + block * scale->step + k / GEMM_SCALE_BLOCK * scale->k_step];
}

static void expect_element(struct product *product, uint64_t index, uint64_t row, uint64_t column,
                           long double sum, long double magnitude)
{
    const struct gemm_problem *p = &product->problem;
    const uint64_t i = (index * p->m + row) * p->n + column;
    const double c0 = p->beta != 0 ? at(p, PRODUCT_C0, p->c0, index, row, column) : 0;
    const double bias = p->bias != NULL ? at(p, PRODUCT_BIAS, p->bias, 0, 0, column) : 0;
    if (p->dtype == GEMMD_I8)
        sum = wrap((int64_t)sum);
    if (p->scales == GEMM_SCALES_ROWCOL) {
        const long double factor =
            scale_at(p, false, index, row, 0) * scale_at(p, true, index, column, 0);
        sum *= factor;
        magnitude *= factor;
    }
    long double value = (long double)p->alpha * sum, summands = fabsl(value);
    if (p->beta != 0) {
        value += (long double)p->beta * c0;
        summands += fabsl((long double)p->beta * c0);
    }
    value += bias;
    if (p->out == GEMMD_I32) {
        const uint64_t exact = (uint64_t)(int64_t)p->alpha * (uint64_t)(int64_t)sum +
                               (uint64_t)(int64_t)p->beta * (uint64_t)(int64_t)c0 +
                               (uint64_t)(int64_t)bias;
        value = wrap((int64_t)exact);
    }
    product->magnitude[i] = p->dtype == GEMMD_I8 ? fabsl(sum) : magnitude;
    product->summands[i] = summands + fabs(bias);
    product->before_act[i] = value;
    product->expected[i] = activate(p->act, value);
}

/* op(A)'s row and op(B)'s column widened once, so that the loop is over doubles. */
bool product_expect(struct product *product)
{
    const struct gemm_problem *p = &product->problem;
    double *a = calloc(p->k, sizeof *a), *b = calloc(p->k * p->n, sizeof *b);
    const bool done = a != NULL && b != NULL;
    for (uint64_t index = 0; done && index < p->batch; index++) {
        for (uint64_t j = 0; j < p->n; j++)
            for (uint64_t i = 0; i < p->k; i++)
                b[j * p->k + i] =
                    at(p, PRODUCT_B, p->b, index, p->transb ? j : i, p->transb ? i : j);
        for (uint64_t row = 0; row < p->m; row++) {
            for (uint64_t i = 0; i < p->k; i++)
                a[i] = at(p, PRODUCT_A, p->a, index, p->transa ? i : row, p->transa ? row : i);
            for (uint64_t j = 0; j < p->n; j++) {
                long double sum = 0, magnitude = 0;
                for (uint64_t i = 0; i < p->k; i++) {
                    long double term = (long double)a[i] * b[j * p->k + i];
                    if (p->scales == GEMM_SCALES_BLOCK)
                        term *= scale_at(p, false, index, row, i) * scale_at(p, true, index, j, i);
                    sum += term;
                    magnitude += fabsl(term);
                }
                expect_element(product, index, row, j, sum, magnitude);
            }
        }
    }
    free(a);
    free(b);
    return done;
}

void product_point(struct gemm_problem *problem, enum product_part part, void *start)
{
    const void **operands[] = {&problem->a, &problem->b, &problem->bias, &problem->c0};
    if (part == PRODUCT_C)
        problem->c = start;
    else if (part == PRODUCT_A_SCALE)
        problem->a_scale.data = start;
    else if (part == PRODUCT_B_SCALE)
        problem->b_scale.data = start;
    else
        *operands[part] = start;
}

bool product_create(struct product *product, const struct gemm_problem *like, uint64_t gap,
                    enum product_fill fill, uint64_t seed)
{
    *product = (struct product){.problem = *like};
    struct gemm_problem *p = &product->problem;
    const bool scaled = like->scales != GEMM_SCALES_NONE;
    const bool wanted[PRODUCT_PARTS] = {true, true, like->bias != NULL, true, scaled, scaled, true};
    const uint64_t count = p->batch * p->m * p->n;
    p->bias = p->c0 = NULL;
    lay_out(p, gap);
    for (unsigned part = 0; part < PRODUCT_PARTS; part++) {
        if (!wanted[part])
            continue;
        if (!allocate(product, (enum product_part)part, fill, seed + part))
            goto fail;
        product_point(p, (enum product_part)part,
                      product->buffers[part].data + product->buffers[part].offset);
    }
    product->expected = calloc(count, sizeof(long double));
    product->magnitude = calloc(count, sizeof(long double));
    product->summands = calloc(count, sizeof(long double));
    product->before_act = calloc(count, sizeof(long double));
    if (product->expected != NULL && product->magnitude != NULL && product->summands != NULL &&
        product->before_act != NULL && product_expect(product))
        return true;
fail:
    product_destroy(product);
    return false;
}

void product_destroy(struct product *product)
{
    for (unsigned part = 0; part < PRODUCT_PARTS; part++)
        free(product->buffers[part].data);
    free(product->expected);
    free(product->magnitude);
    free(product->summands);
    free(product->before_act);
    *product = (struct product){.problem = product->problem};
}

void product_poison(struct product *product)
{
    struct product_buffer *c = &product->buffers[PRODUCT_C];
    memset(c->data, poison_of(product->problem.out), c->bytes);
}

/* Half of the last place, relative; half of the smallest number; the largest number. */
struct precision {
    long double unit, least, largest;
};

static struct precision precision_of(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return (struct precision){0x1p-53L, 0x1p-1075L, 0x1.fffffffffffffp1023L};
    case GEMMD_F16:
        return (struct precision){0x1p-11L, 0x1p-25L, 65504};
    case GEMMD_BF16:
        return (struct precision){0x1p-8L, 0x1p-134L, 0x1.fep127L};
    default:
        return (struct precision){0x1p-24L, 0x1p-150L, 0x1.fffffep127L};
    }
}

double product_sum_error(enum gemmd_dtype dtype, uint64_t k)
{
    if (dtype == GEMMD_I8)
        return 0;
    return (double)(k + 4) * (double)precision_of(dtype_accumulator(dtype)).unit;
}

/* What rounding may do to an element before it is rounded to `out`. The steps after the sum are
 * at most 8 roundings on the magnitudes of what is added; the activations change a difference by
 * a factor of less than 1.2 and are themselves computed in no more than 32 roundings of values not
 * larger than their argument. */
static long double allowed(const struct product *product, double sum_error, uint64_t i)
{
    const struct gemm_problem *p = &product->problem;
    if (p->out == GEMMD_I32)
        return 0;
    const struct precision computed = precision_of(dtype_accumulator(p->out));
    long double error =
        (long double)(fabs(p->alpha) * sum_error) * product->magnitude[i] +
        8 * computed.unit * product->summands[i] +
        (long double)(p->k + 8) * (1 + fabsl((long double)p->alpha)) * computed.least;
    if (!gemm_act_is_exact(p->act))
        error =
            1.2L * error + 32 * (computed.unit * fabsl(product->before_act[i]) + computed.least);
    return error;
}

/* |error| / allowed error; infinite where the kinds of number differ. */
static double judge(const struct product *product, double sum_error, uint64_t i, double got)
{
    const struct precision out = precision_of(product->problem.out);
    const long double expected = product->expected[i], error = allowed(product, sum_error, i);
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got) ? 0 : (double)INFINITY;
    if (isinf(expected))
        return got == (double)expected ? 0 : (double)INFINITY;
    if (isinf(got)) /* it must have been possible to be rounded there */
        return fabsl(expected) + error >= out.largest * (1 + out.unit / 2) && got * expected > 0
                   ? 0
                   : (double)INFINITY;
    const long double difference = fabsl(got - expected);
    if (difference == 0)
        return 0;
    if (product->problem.out == GEMMD_I32)
        return (double)INFINITY;
    return (double)(difference / (error + out.unit * (fabsl(expected) + error) + out.least));
}

/* Whether all bytes of C's buffer that are no element are still poison. */
static bool surroundings_intact(const struct product *product, char *text, uint64_t size)
{
    const struct layout l = layout_of(&product->problem, PRODUCT_C);
    const struct product_buffer *c = &product->buffers[PRODUCT_C];
    const uint64_t element = dtype_size(l.dtype);
    const unsigned char poison = (unsigned char)poison_of(l.dtype);
    for (uint64_t i = 0; i < c->bytes; i++) {
        if (c->data[i] == poison)
            continue;
        if (i >= c->offset && i < c->offset + l.batch * l.stride * element) {
            const uint64_t at_element = (i - c->offset) / element % l.stride;
            if (at_element / l.ld < l.rows && at_element % l.ld < l.columns)
                continue;
        }
        snprintf(text, size, "byte %" PRId64 " from the start of C was written",
                 (int64_t)i - (int64_t)c->offset);
        return false;
    }
    return true;
}

bool product_check(const struct product *product, double sum_error, double *worst, char *text,
                   uint64_t size)
{
    const struct gemm_problem *p = &product->problem;
    if (!surroundings_intact(product, text, size))
        return false;
    for (uint64_t i = 0; i < p->batch * p->m * p->n; i++) {
        const uint64_t index = i / (p->m * p->n), row = i / p->n % p->m, column = i % p->n;
        const double got = at(p, PRODUCT_C, p->c, index, row, column);
        const double ratio = judge(product, sum_error, i, got);
        if (worst != NULL && ratio > *worst)
            *worst = ratio;
        if (!(ratio <= 1)) {
            snprintf(text, size,
                     "C[%" PRIu64 "][%" PRIu64 "][%" PRIu64 "] is %.17g and should be %.17Lg: %.3g "
                     "times what rounding explains",
                     index, row, column, got, product->expected[i], ratio);
            return false;
        }
    }
    return true;
}

double product_residual(struct gemm_context *context, const struct gemm_problem *problem,
                        uint64_t seed, double *rows)
{
    uint64_t bytes;
    double residual = -1;
    if (!freivalds_bytes(problem, &bytes))
        return -1;
    unsigned char *workspace = malloc(bytes);
    if (workspace == NULL)
        return -1;
    memset(workspace, 0xff, bytes); /* the workspace need not be zeros */
    if (freivalds_check(context, problem, seed, workspace) == GEMMD_OK) {
        memcpy(&residual, workspace, sizeof residual);
        if (rows != NULL)
            memcpy(rows, workspace + FREIVALDS_ROWS_OFFSET,
                   problem->batch * problem->m * sizeof *rows);
    }
    free(workspace);
    return residual;
}

void product_describe(const struct gemm_problem *p, char *text, uint64_t size)
{
    snprintf(text, size,
             "%s to %s, %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", batch %" PRIu64 ", lda %" PRIu64
             "%s%s, alpha %g, beta %g%s, act %s%s%s%s",
             dtype_name(p->dtype), dtype_name(p->out), p->m, p->n, p->k, p->batch, p->lda,
             p->transa ? ", transa" : "", p->transb ? ", transb" : "", p->alpha, p->beta,
             p->bias != NULL ? ", bias" : "", gemm_act_name(p->act),
             p->precision == GEMM_PRECISION_TF32 ? ", tf32"
             : p->precision == GEMM_PRECISION_F8 ? ", f8"
                                                 : "",
             p->scales != GEMM_SCALES_NONE ? ", scales " : "",
             p->scales != GEMM_SCALES_NONE ? gemm_scales_name(p->scales) : "");
}
