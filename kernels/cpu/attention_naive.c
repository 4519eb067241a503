/*
 * naive - the three steps of the definition: the scores of a row, each a chain of fused
 * multiply-adds; their softmax; and the product with V, each element a chain in the order of the
 * keys. The other kernels are compared with this one.
 *
 * ROWS rows of scores are in memory at a time, one for each part of the computation, whatever the
 * number of threads.
 */
#include <math.h>

#include "kernels/attention.h"
#include "kernels/cpu/attention_mask.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ROWS = 64 };

struct naive_job {
    const struct attention_problem *problem;
    uint64_t first; /* of all rows of all heads of all entries */
    float *scores;  /* [ROWS][skv] */
};

static const char *row_of(const void *tensor, const struct attention_strides *strides,
                          enum gemmd_dtype dtype, uint64_t entry, uint64_t head, uint64_t row)
{
    return (const char *)tensor +
           (entry * strides->batch + head * strides->head + row * strides->row) * dtype_size(dtype);
}

/* Whether the mask lets a query see key `j`. Adds what the mask adds to the score. */
static bool add_mask(const struct attention_problem *p, const char *mask, uint64_t j, float *score)
{
    float value = 0;
    if (mask == NULL)
        return true;
    attention_mask_values(p, mask, j, 1, &value);
    *score += value;
    return value != -INFINITY;
}

static float score(const struct attention_problem *p, const float *q, const float *k)
{
    float sum = 0;
    for (uint64_t c = 0; c < p->d; c++)
        sum = fmaf(q[c], k[c], sum);
    sum *= p->scale;
    return p->softcap > 0 ? p->softcap * tanhf(sum / p->softcap) : sum;
}

/* Turns scores, of which there is at least one, into weights, which add up to 1. Returns the
 * logarithm of the divisor of the weights. */
static float cpu_attention_naive_softmax(float *scores, uint64_t count)
{
    float most = scores[0];
    for (uint64_t j = 1; j < count; j++)
        most = scores[j] > most ? scores[j] : most;
    scores[0] = expf(scores[0] - most);
    float total = scores[0];
    for (uint64_t j = 1; j < count; j++) {
        scores[j] = expf(scores[j] - most);
        total += scores[j];
    }
    for (uint64_t j = 0; j < count; j++)
        scores[j] /= total;
    return most + logf(total);
}

static void cpu_attention_naive_compute_row(void *argument, uint64_t part, uint32_t member)
{
    (void)member;
    const struct naive_job *job = argument;
    const struct attention_problem *p = job->problem;
    const uint64_t number = job->first + part, i = number % p->sq;
    const uint64_t head = number / p->sq % p->heads, entry = number / p->sq / p->heads;
    const uint64_t kv_head = head / (p->heads / p->kv_heads);
    const uint64_t sq = p->lens_q != NULL ? (uint64_t)p->lens_q[entry] : p->sq;
    const uint64_t skv = p->lens_q != NULL ? (uint64_t)p->lens_kv[entry] : p->skv;
    const char *mask = attention_mask_row(p, entry, head, i);
    struct attention_span span = {0, 0};
    bool sees = false;
    if (i < sq)
        span = attention_span(p, sq, skv, i);

    float *scores = job->scores + part * p->skv, lse = -INFINITY;
    float q[ATTENTION_WIDTH_MAX], line[ATTENTION_WIDTH_MAX], sums[ATTENTION_WIDTH_MAX] = {0};
    convert_widen(p->dtype, row_of(p->q, &p->q_strides, p->dtype, entry, head, i), q, p->d);
    for (uint64_t j = span.first; j < span.end; j++) {
        convert_widen(p->dtype, row_of(p->k, &p->k_strides, p->dtype, entry, kv_head, j), line,
                      p->d);
        scores[j] = score(p, q, line);
        if (add_mask(p, mask, j, &scores[j]))
            sees = true;
        else
            scores[j] = -INFINITY;
    }
    if (sees)
        lse = cpu_attention_naive_softmax(scores + span.first, span.end - span.first);
    for (uint64_t j = span.first; j < span.end && sees; j++) {
        if (!add_mask(p, mask, j, &(float){0}))
            continue;
        convert_widen(p->dtype, row_of(p->v, &p->v_strides, p->dtype, entry, kv_head, j), line,
                      p->dv);
        for (uint64_t c = 0; c < p->dv; c++)
            sums[c] = fmaf(scores[j], line[c], sums[c]);
    }
    convert_narrow(p->dtype, sums, (char *)row_of(p->o, &p->o_strides, p->dtype, entry, head, i),
                   p->dv);
    if (p->lse != NULL)
        p->lse[number] = lse;
}

static bool cpu_attention_naive_workspace_bytes(const void *of, uint64_t *out)
{
    const struct attention_problem *problem = of;
    const uint64_t dims[] = {ROWS, problem->skv};
    return size_tensor_bytes(GEMMD_F32, dims, 2, out);
}

static enum gemmd_error cpu_attention_naive_run(struct gemm_context *base, const void *of,
                                                void *workspace)
{
    const struct attention_problem *problem = of;
    struct naive_job job = {.problem = problem, .scores = workspace};
    const uint64_t rows = problem->batch * problem->heads * problem->sq;
    struct team *team = cpu_context_of(base)->team;
    for (; job.first < rows && !team_has_stopped(team); job.first += ROWS)
        team_run(team, cpu_attention_naive_compute_row, &job,
                 rows - job.first < ROWS ? rows - job.first : ROWS);
    return GEMMD_OK;
}

const struct operation_kernel attention_cpu_naive = {
    .name = "naive",
    .description = "the three steps, with rows of scores in memory; the reference",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = attention_problem_offered,
    .workspace_bytes = cpu_attention_naive_workspace_bytes,
    .run = cpu_attention_naive_run,
};
