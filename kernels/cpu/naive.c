/*
 * naive - each element of C is one chain of fused multiply-adds in the order of k, in the
 * accumulator's type. The kernel defines the accuracy that precision=full promises, and the other
 * kernels are compared with it.
 */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "proto/dtype.h"

/* One row of op(A) and one column of op(B): element p is at p times the step, in elements. */
struct chain {
    const void *a, *b;
    uint64_t a_step, b_step, k;
};

#define INLINE static inline __attribute__((always_inline))

INLINE float load_f32(const void *from, uint64_t i)
{
    return ((const float *)from)[i];
}

INLINE float load_f16(const void *from, uint64_t i)
{
    return convert_f16_to_f32(((const uint16_t *)from)[i]);
}

INLINE float load_bf16(const void *from, uint64_t i)
{
    return convert_bf16_to_f32(((const uint16_t *)from)[i]);
}

INLINE float load_f8_e4m3(const void *from, uint64_t i)
{
    return convert_f8_e4m3_to_f32(((const uint8_t *)from)[i]);
}

INLINE float sum_f32(const struct chain *chain, float (*load)(const void *from, uint64_t i))
{
    float sum = 0;
    for (uint64_t p = 0; p < chain->k; p++)
        sum = fmaf(load(chain->a, p * chain->a_step), load(chain->b, p * chain->b_step), sum);
    return sum;
}

static double sum_f64(const struct chain *chain)
{
    const double *a = chain->a, *b = chain->b;
    double sum = 0;
    for (uint64_t p = 0; p < chain->k; p++)
        sum = fma(a[p * chain->a_step], b[p * chain->b_step], sum);
    return sum;
}

static uint32_t sum_i8(const struct chain *chain)
{
    const int8_t *a = chain->a, *b = chain->b;
    uint32_t sum = 0; /* unsigned: it wraps */
    for (uint64_t p = 0; p < chain->k; p++)
        sum += (uint32_t)(a[p * chain->a_step] * b[p * chain->b_step]);
    return sum;
}

/* The sums of 128 products each, times the product of their factors, added in the order of k. */
static float sum_f8_blocks(const struct chain *chain, const float *a_scale, uint64_t a_step,
                           const float *b_scale, uint64_t b_step)
{
    float sum = 0;
    struct chain block = *chain;
    for (uint64_t p = 0; p < chain->k; p += GEMM_SCALE_BLOCK) {
        const uint64_t left = chain->k - p;
        block.a = (const char *)chain->a + p * chain->a_step;
        block.b = (const char *)chain->b + p * chain->b_step;
        block.k = left < GEMM_SCALE_BLOCK ? left : GEMM_SCALE_BLOCK;
        const uint64_t number = p / GEMM_SCALE_BLOCK;
        sum = fmaf(sum_f32(&block, load_f8_e4m3),
                   a_scale[number * a_step] * b_scale[number * b_step], sum);
    }
    return sum;
}

enum {
    CHUNK = 128,
    STEPS = 1 << 20, /* of chains between two calls of team_stops */
};

union chunk {
    double f64[CHUNK];
    float f32[CHUNK];
    uint32_t u32[CHUNK];
};

static void cpu_naive_sum(enum gemmd_dtype dtype, const struct chain *chain, union chunk *sums,
                          uint64_t j)
{
    switch (dtype) {
    case GEMMD_F64:
        sums->f64[j] = sum_f64(chain);
        break;
    case GEMMD_F32:
        sums->f32[j] = sum_f32(chain, load_f32);
        break;
    case GEMMD_F16:
        sums->f32[j] = sum_f32(chain, load_f16);
        break;
    case GEMMD_BF16:
        sums->f32[j] = sum_f32(chain, load_bf16);
        break;
    case GEMMD_F8_E4M3:
        sums->f32[j] = sum_f32(chain, load_f8_e4m3);
        break;
    default:
        sums->u32[j] = sum_i8(chain);
        break;
    }
}

struct naive_job {
    struct team *team;
    const struct gemm_problem *problem;
    uint64_t index;
};

/* So many that they take some milliseconds. A single chain is not interrupted: it reads each
 * element of its operands once, so it takes no longer than the operands took to arrive. */
static uint64_t columns_at_a_time(uint64_t k)
{
    const uint64_t columns = k == 0 ? CHUNK : STEPS / k;
    return columns > CHUNK ? CHUNK : columns < 1 ? 1 : columns;
}

/* The first factor of a row of op(A) or a column of op(B). */
static const float *block_scale(const struct gemm_problem *p, bool of_b, uint64_t index,
                                uint64_t line)
{
    const struct gemm_scale *scale = of_b ? &p->b_scale : &p->a_scale;
    return scale->data + index * scale->stride +
           (of_b ? line / GEMM_SCALE_BLOCK : line) * scale->step;
}

static void cpu_naive_compute_row(void *argument, uint64_t row, uint32_t member)
{
    (void)member;
    const struct naive_job *job = argument;
    const struct gemm_problem *p = job->problem;
    const uint64_t size = dtype_size(p->dtype);
    const char *a = (const char *)p->a + job->index * p->stride_a * size;
    const char *b = (const char *)p->b + job->index * p->stride_b * size;
    struct chain chain = {
        .a = a + row * (p->transa ? 1 : p->lda) * size,
        .a_step = p->transa ? p->lda : 1,
        .b_step = p->transb ? 1 : p->ldb,
        .k = p->k,
    };
    const uint64_t most = columns_at_a_time(p->k);
    union chunk sums;
    for (uint64_t column = 0; column < p->n; column += most) {
        const uint64_t count = p->n - column < most ? p->n - column : most;
        if (column > 0 && team_stops(job->team))
            return;
        for (uint64_t j = 0; j < count; j++) {
            chain.b = b + (column + j) * (p->transb ? p->ldb : 1) * size;
            if (p->scales == GEMM_SCALES_BLOCK)
                sums.f32[j] =
                    sum_f8_blocks(&chain, block_scale(p, false, job->index, row), p->a_scale.k_step,
                                  block_scale(p, true, job->index, column + j), p->b_scale.k_step);
            else
                cpu_naive_sum(p->dtype, &chain, &sums, j);
        }
        epilogue_row(p, job->index, row, column, count, &sums);
    }
}

static enum gemmd_error cpu_naive_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    struct team *team = cpu_context_of(base)->team;
    struct naive_job job = {.team = team, .problem = problem};
    for (; job.index < problem->batch; job.index++) {
        if (job.index > 0 && team_stops(team))
            break;
        if (cpu_is_small(problem->m, problem->n, problem->k))
            for (uint64_t row = 0; row < problem->m; row++)
                cpu_naive_compute_row(&job, row, 0);
        else
            team_run(team, cpu_naive_compute_row, &job, problem->m);
    }
    return GEMMD_OK;
}

const struct operation_kernel gemm_cpu_naive = {
    .name = "naive",
    .description = "one chain of fused multiply-adds an element; the reference",
    .rows_independent = true,
    .any_leading = true,
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = gemm_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = cpu_naive_run,
};
