#include "kernels/cuda/attention/flash_mma.h"

#include <stdio.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/group.h"

static bool flash_mma_takes(const void *of)
{
    const struct attention_problem *p = of;
    const uint64_t rows_min = 64; /* of a tile */
    return attention_problem_offered(p) && p->mask == NULL &&
           (p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) && attention_arguments_fit(p) &&
           (!p->has_offset || p->offset <= ATTENTION_LENGTH_MAX) &&
           (p->ragged ? p->heads <= INT32_MAX / (p->sq / rows_min + p->batch)
                      : p->batch * p->heads <= INT32_MAX / ((p->sq + rows_min - 1) / rows_min));
}

static uint64_t flash_mma_tiles(struct gemm_context *context, const void *problem)
{
    (void)context;
    return attention_flash_mma_tiles(problem);
}

static enum gemmd_error flash_mma_run_tiles(struct gemm_context *context, const void *problem,
                                            struct operation_range tiles)
{
    return attention_flash_mma_launch(cuda_context_of(context)->stream, problem, tiles);
}

static enum gemmd_error flash_mma_run(struct gemm_context *context, const void *problem,
                                      void *workspace)
{
    (void)workspace;
    const struct operation_range all = {0, attention_flash_mma_tiles(problem)};
    return flash_mma_run_tiles(context, problem, all);
}

/* One launch for the plain members, and one for each of the general ones. */
static enum gemmd_error flash_mma_run_group(struct gemm_context *context,
                                            const struct operation_member members[], uint32_t count)
{
    struct attention_member ordered[ATTENTION_GROUP_MAX];
    enum gemmd_error code = GEMMD_OK;
    uint32_t plain = 0;
    attention_group_order(members, count, ordered);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        const struct attention_member member = ordered[i];
        if (attention_flash_mma_is_general(member.problem))
            code = flash_mma_run(context, member.problem, NULL);
        else
            ordered[plain++] = member;
    }
    if (plain == 0 || code != GEMMD_OK)
        return code;
    return attention_flash_mma_launch_group(cuda_context_of(context)->stream, ordered, plain);
}

static void flash_mma_tile(struct gemm_context *context, const void *problem,
                           struct operation_tile *out)
{
    uint32_t queries, keys;
    (void)context;
    attention_flash_mma_tile(problem, &queries, &keys);
    snprintf(out->name, sizeof out->name, "%ux%u", queries, keys);
}

const struct operation_kernel attention_cuda_flash_mma = {
    .name = "flash_mma",
    .description = "tensor cores by mma.sync, keys by cp.async, softmax in registers; sm_80 on",
    .takes = flash_mma_takes,
    .workspace_bytes = operation_no_workspace,
    .run = flash_mma_run,
    .tiles = flash_mma_tiles,
    .run_tiles = flash_mma_run_tiles,
    .tile = flash_mma_tile,
    .launch_flops = 2e13,
    .run_group = flash_mma_run_group,
    .group_units = ATTENTION_GROUP_UNITS_TENSOR,
};
