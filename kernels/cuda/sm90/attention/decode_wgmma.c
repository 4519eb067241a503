/* The host code of decode_wgmma.cuh: from problems to arguments and grids. */
#include "kernels/cuda/sm90/attention/decode_wgmma.h"

#include <string.h>

#include "kernels/cuda/sm90/attention/flash_wgmma.h"
#include "kernels/cuda/sm90/grid.h"
#include "proto/size.h"

enum {
    THREADS = 160,  /* decode_config::THREADS */
    JOIN_WARPS = 4, /* decode_config::JOIN_THREADS */
    ALIGNMENT_BYTES = 16
};

static bool decode_wgmma_aligned(const void *pointer)
{
    return (uintptr_t)pointer % ALIGNMENT_BYTES == 0;
}

bool decode_wgmma_takes(const struct attention_problem *p)
{
    return p->sq * (p->heads / p->kv_heads) >= DECODE_WGMMA_ROWS_MIN &&
           p->d <= DECODE_WGMMA_WIDTH_MAX && p->dv <= DECODE_WGMMA_WIDTH_MAX &&
           attention_wgmma_takes(p) && decode_wgmma_aligned(p->q) && decode_wgmma_aligned(p->k) &&
           decode_wgmma_aligned(p->v);
}

static const struct decode_wgmma_kernel *decode_wgmma_choose(const struct attention_problem *p)
{
    const struct decode_wgmma_kernel *kernel =
        p->dtype == GEMMD_BF16 ? decode_wgmma_bf16 : decode_wgmma_f16;
    return p->d <= kernel->width && p->dv <= kernel->width ? kernel : kernel + 1;
}

/* The second kernel asks for the same division of a multiprocessor's memory as the first, so that
 * blocks of both can run on a multiprocessor at once. */
cudaError_t decode_wgmma_prepare(void)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < 8 && error == cudaSuccess; i++) {
        const struct decode_wgmma_kernel *kernel =
            (i < 4 ? decode_wgmma_bf16 : decode_wgmma_f16) + i / 2 % 2;
        error =
            cudaFuncSetAttribute(kernel->split[i % 2], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)kernel->shared_bytes);
        if (error == cudaSuccess)
            error = cudaFuncSetAttribute(kernel->join[i % 2],
                                         cudaFuncAttributePreferredSharedMemoryCarveout,
                                         cudaSharedmemCarveoutMaxShared);
    }
    return error;
}

static uint32_t decode_wgmma_units(const struct attention_problem *p)
{
    return (uint32_t)(p->batch * p->kv_heads);
}

/* The most KV splits of an entry, at most attention_decode_kv_splits. */
static uint32_t decode_wgmma_kv_splits(const struct attention_problem *p)
{
    const uint32_t keys = (uint32_t)p->skv, rows = (uint32_t)(p->sq * (p->heads / p->kv_heads));
    const uint32_t width = (uint32_t)(p->d > p->dv ? p->d : p->dv);
    if (p->lens_q != NULL)
        return attention_decode_kv_splits_max(keys);
    return (uint32_t)size_blocks(
        keys, decode_wgmma_split_keys(keys, attention_decode_kv_heads(p), rows, width));
}

/* Fills in all but the numbers of the first KV split and row. */
static cudaError_t decode_wgmma_fill(const struct sm90_device *device,
                                     const struct attention_member *member,
                                     struct decode_wgmma_arguments *arguments)
{
    const struct attention_problem *p = member->problem;
    memset(arguments, 0, sizeof *arguments);
    attention_arguments_fill(p, &arguments->a);
    arguments->kv_splits = decode_wgmma_kv_splits(p);
    arguments->kv_heads = attention_decode_kv_heads(p);
    arguments->rows = arguments->a.sq * arguments->a.group;
    arguments->columns = (arguments->a.dv + 3) / 4 * 4;
    arguments->sums = member->workspace;
    arguments->states =
        (float2 *)(arguments->sums + (uint64_t)decode_wgmma_units(p) * arguments->kv_splits *
                                         arguments->rows * arguments->columns);
    cudaError_t error =
        attention_wgmma_encode(device, p->dtype, p->k, &p->k_strides, p->batch, p->kv_heads, p->skv,
                               p->d, DECODE_WGMMA_KEYS, &arguments->k);
    if (error == cudaSuccess)
        error = attention_wgmma_encode(device, p->dtype, p->v, &p->v_strides, p->batch, p->kv_heads,
                                       p->skv, p->dv, DECODE_WGMMA_KEYS, &arguments->v);
    return error;
}

static cudaError_t decode_wgmma_launch(const struct decode_wgmma_kernel *kernel,
                                       const struct decode_wgmma_group *group, cudaStream_t stream)
{
    const struct decode_wgmma_single single = {group->items, group->rows, group->problems[0]};
    const int several = group->count > 1;
    const void *const arguments = several ? (const void *)group : &single;
    const struct sm90_grid split = {.function = kernel->split[several],
                                    .blocks = group->items,
                                    .cluster = 1,
                                    .threads = THREADS,
                                    .shared_bytes = kernel->shared_bytes};
    const struct sm90_grid join = {.function = kernel->join[several],
                                   .blocks = (group->rows + JOIN_WARPS - 1) / JOIN_WARPS,
                                   .cluster = 1,
                                   .threads = 32 * JOIN_WARPS};
    const cudaError_t error = sm90_grid_enqueue(&split, arguments, stream);
    return error == cudaSuccess ? sm90_grid_enqueue(&join, arguments, stream) : error;
}

cudaError_t decode_wgmma_enqueue(const struct sm90_device *device,
                                 const struct attention_member members[], uint32_t count,
                                 cudaStream_t stream)
{
    const struct decode_wgmma_kernel *kernel = decode_wgmma_choose(members[0].problem);
    struct decode_wgmma_group group;
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < count && error == cudaSuccess;) {
        group.count = group.items = group.rows = 0;
        for (; i < count && group.count < DECODE_WGMMA_GROUP && error == cudaSuccess; i++) {
            struct decode_wgmma_arguments *arguments = &group.problems[group.count];
            error = decode_wgmma_fill(device, &members[i], arguments);
            const uint32_t units = decode_wgmma_units(members[i].problem);
            const uint32_t items = units * arguments->kv_splits, rows = units * arguments->rows;
            const uint32_t most = INT32_MAX;
            if (group.count > 0 && (items > most - group.items || rows > most - group.rows))
                break;
            arguments->first_item = group.items;
            arguments->first_row = group.rows;
            group.items += items;
            group.rows += rows;
            group.count++;
        }
        if (error == cudaSuccess)
            error = decode_wgmma_launch(kernel, &group, stream);
    }
    return error;
}
