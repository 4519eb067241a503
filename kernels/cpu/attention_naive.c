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
#include "kernels/cpu/attention_bias.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ROWS = 64 };

struct naive_job {
    const struct attention_problem *problem;
    struct team *team;
    uint64_t first; /* of all rows of all heads of all entries */
    float *scores;  /* [ROWS][skv] */
};

static const char *row_of(const void *tensor, const struct attention_strides *strides,
                          enum gemmd_dtype dtype, uint64_t entry, uint64_t head, uint64_t row)
{
    return (const char *)tensor +
           (entry * strides->batch + head * strides->head + row * strides->row) * dtype_size(dtype);
}

/* A row of the scores. */
struct naive_row {
    const struct attention_problem *problem;
    uint64_t entry, head, query;
    int64_t position;
};

/* Whether the mask lets a query see key `j`. Adds the bias to the score. */
static bool add_bias(const struct naive_row *row, uint64_t j, float *score)
{
    float value = 0;
    if (!attention_has_bias(row->problem))
        return true;
    attention_bias(row->problem, row->entry, row->head, row->query, row->position, j, 1, &value);
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

/* Turns scores, of which there is at least one, into weights. Returns the logarithm of the divisor
 * of the weights, which is their sum and that of the sink (NULL: none). */
static float cpu_attention_naive_softmax(float *scores, uint64_t count, const float *sink)
{
    float most = sink != NULL ? *sink : scores[0];
    for (uint64_t j = 0; j < count; j++)
        most = scores[j] > most ? scores[j] : most;
    float total = sink != NULL ? expf(*sink - most) : 0;
    for (uint64_t j = 0; j < count; j++) {
        scores[j] = expf(scores[j] - most);
        total += scores[j];
    }
    for (uint64_t j = 0; j < count; j++)
        scores[j] /= total;
    return most + logf(total);
}

/* The entry of a ragged problem that has a row of Q. */
static uint64_t ragged_entry(const struct attention_problem *p, uint64_t row)
{
    uint64_t low = 0, high = p->batch - 1;
    while (low < high) {
        const uint64_t middle = (low + high + 1) / 2;
        if ((uint64_t)p->lens_q[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void cpu_attention_naive_compute_row(void *argument, uint64_t part, uint32_t member)
{
    (void)member;
    const struct naive_job *job = argument;
    const struct attention_problem *p = job->problem;
    const uint64_t number = job->first + part, of_all = number % p->sq;
    const uint64_t head = number / p->sq % p->heads, apart = number / p->sq / p->heads;
    const uint64_t entry = p->ragged ? ragged_entry(p, of_all) : apart;
    const uint64_t kv_head = head / (p->heads / p->kv_heads);
    const struct attention_rows rows = attention_rows(p, entry);
    const uint64_t i = of_all - rows.first_q;
    const float *sink = p->sinks != NULL && i < rows.sq ? p->sinks + head : NULL;
    const struct naive_row row = {p, entry, head, i, attention_position(p, rows.sq, rows.skv, i)};
    struct attention_span span = {0, 0};
    struct team_pace pace = {.team = job->team};
    bool sees = false;
    if (i < rows.sq)
        span = attention_span(p, rows.sq, rows.skv, i);

    float *scores = job->scores + part * p->skv, lse = sink != NULL ? *sink : -INFINITY;
    float q[ATTENTION_WIDTH_MAX], line[ATTENTION_WIDTH_MAX], sums[ATTENTION_WIDTH_MAX] = {0};
    convert_widen(p->dtype, row_of(p->q, &p->q_strides, p->dtype, apart, head, of_all), q, p->d);
    for (uint64_t j = span.first; j < span.end; j++) {
        if (team_pace_stops(&pace, p->d))
            return;
        convert_widen(p->dtype,
                      row_of(p->k, &p->k_strides, p->dtype, apart, kv_head, rows.first_kv + j),
                      line, p->d);
        scores[j] = score(p, q, line);
        if (add_bias(&row, j, &scores[j]))
            sees = true;
        else
            scores[j] = -INFINITY;
    }
    if (sees)
        lse = cpu_attention_naive_softmax(scores + span.first, span.end - span.first, sink);
    for (uint64_t j = span.first; j < span.end && sees; j++) {
        if (team_pace_stops(&pace, p->dv))
            return;
        if (!add_bias(&row, j, &(float){0}))
            continue;
        convert_widen(p->dtype,
                      row_of(p->v, &p->v_strides, p->dtype, apart, kv_head, rows.first_kv + j),
                      line, p->dv);
        for (uint64_t c = 0; c < p->dv; c++)
            sums[c] = fmaf(scores[j], line[c], sums[c]);
    }
    convert_narrow(p->dtype, sums,
                   (char *)row_of(p->o, &p->o_strides, p->dtype, apart, head, of_all), p->dv);
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
    struct team *team = cpu_context_of(base)->team;
    struct naive_job job = {.problem = problem, .team = team, .scores = workspace};
    const uint64_t rows = attention_entries_apart(problem) * problem->heads * problem->sq;
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
