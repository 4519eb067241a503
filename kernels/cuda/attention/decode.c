#include "kernels/cuda/attention/decode.h"

#include <stdio.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/group.h"
#include "kernels/cuda/sm90/attention/decode_wgmma.h"
#include "proto/size.h"

static bool attention_decode_takes(const void *of)
{
    const struct attention_problem *p = of;
    const uint64_t rows_max = ATTENTION_DECODE_ROWS_MAX;
    if (!attention_problem_is_plain(p) || (p->dtype != GEMMD_F16 && p->dtype != GEMMD_BF16) ||
        !attention_arguments_fit(p) || p->sq > rows_max ||
        p->sq * (p->heads / p->kv_heads) > rows_max)
        return false;
    const uint64_t kv_splits = attention_decode_kv_splits(p);
    return p->batch * p->kv_heads <= INT32_MAX / (kv_splits > rows_max ? kv_splits : rows_max);
}

/* The most keys with which flash_wgmma is preferred. If every query head has K and V of its own and
 * there are at least 16 queries, decode is bound by arithmetic rather than by memory. flash_wgmma
 * is then faster, provided that there are enough heads to occupy most multiprocessors: with 32
 * heads flash_wgmma is at most a quarter slower than decode for an attention that runs alone (a
 * sixth with 16 queries), and up to 2.6 times faster for a batch. With fewer heads and many keys
 * most multiprocessors would be idle. */
static uint64_t attention_decode_yields_up_to(const struct attention_problem *p)
{
    const uint64_t queries_min = 16, enough_heads = 32;
    if (p->heads != p->kv_heads || p->sq < queries_min)
        return 0;
    if (p->sq == queries_min)
        return p->heads >= enough_heads ? 2048 : 0;
    return p->heads >= enough_heads ? 8192 : 32 * p->heads;
}

static const struct operation_kernel *attention_decode_preferred_kernel(const void *of)
{
    const struct attention_problem *p = of;
    return p->skv <= attention_decode_yields_up_to(p) ? &attention_cuda_wgmma : NULL;
}

static bool attention_decode_workspace_bytes(const void *of, uint64_t *out)
{
    const struct attention_problem *p = of;
    uint64_t rows;
    return size_mul(p->batch * p->heads, p->sq, &rows) &&
           size_mul(rows, attention_decode_kv_splits(p), &rows) &&
           size_mul(rows, ((p->dv + 3) / 4 * 4 + 2) * sizeof(float), out);
}

/* Whether the kernels for sm_90a compute the problem. They have other bits than the kernels of
 * decode.cuh. */
static bool attention_decode_has_wgmma(const struct cuda_context *context,
                                       const struct attention_problem *problem)
{
    return context->sm90.encode != NULL && decode_wgmma_takes(problem);
}

static enum gemmd_error attention_decode_run(struct gemm_context *base, const void *problem,
                                             void *workspace)
{
    struct cuda_context *context = cuda_context_of(base);
    const struct attention_member member = {problem, workspace};
    if (!attention_decode_has_wgmma(context, problem))
        return attention_decode_launch(context->stream, problem, workspace);
    return cuda_error_code((int)decode_wgmma_enqueue(&context->sm90, &member, 1, context->stream));
}

/* The rows of all heads that share a head of K and V, and the keys of a KV split. With lengths,
 * every entry has KV splits of its own. */
static void attention_decode_tile(struct gemm_context *base, const void *of,
                                  struct operation_tile *out)
{
    const struct attention_problem *p = of;
    const uint32_t keys = (uint32_t)p->skv, rows = (uint32_t)(p->sq * (p->heads / p->kv_heads));
    const uint32_t width = (uint32_t)(p->d > p->dv ? p->d : p->dv);
    const uint32_t kv_heads = attention_decode_kv_heads(p);
    if (p->lens_q != NULL)
        return;
    snprintf(out->name, sizeof out->name, "%ux%u", rows,
             attention_decode_has_wgmma(cuda_context_of(base), p)
                 ? decode_wgmma_split_keys(keys, kv_heads, rows, width)
                 : attention_decode_kv_split_keys(keys, kv_heads, rows, width));
}

/* A launch for the members that the kernels for sm_90a compute, and one for the others. */
static enum gemmd_error attention_decode_run_group(struct gemm_context *base,
                                                   const struct operation_member members[],
                                                   uint32_t count)
{
    struct cuda_context *context = cuda_context_of(base);
    struct attention_member ordered[ATTENTION_GROUP_MAX], by_wgmma[ATTENTION_GROUP_MAX];
    uint32_t others = 0, taken = 0;
    attention_group_order(members, count, ordered);
    for (uint32_t i = 0; i < count; i++) {
        if (attention_decode_has_wgmma(context, ordered[i].problem))
            by_wgmma[taken++] = ordered[i];
        else
            ordered[others++] = ordered[i];
    }
    enum gemmd_error code = GEMMD_OK;
    if (taken > 0)
        code = cuda_error_code(
            (int)decode_wgmma_enqueue(&context->sm90, by_wgmma, taken, context->stream));
    if (code == GEMMD_OK && others > 0)
        code = attention_decode_launch_group(context->stream, ordered, others);
    return code;
}

const struct operation_kernel attention_cuda_decode = {
    .name = "decode",
    .description = "few queries and many keys: keys in splits of a fixed size, combined in order",
    .takes = attention_decode_takes,
    .preferred_kernel = attention_decode_preferred_kernel,
    .workspace_bytes = attention_decode_workspace_bytes,
    .run = attention_decode_run,
    .tile = attention_decode_tile,
    .run_group = attention_decode_run_group,
    .group_units = ATTENTION_GROUP_UNITS_DECODE,
};
