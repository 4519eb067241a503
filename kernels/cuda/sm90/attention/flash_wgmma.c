/* flash_wgmma as one kernel for any problem of f16 and bf16 whose rows are aligned. */
#include "kernels/cuda/sm90/attention/flash_wgmma.h"

#include <stdio.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/context.h"

static bool flash_wgmma_takes(const void *problem)
{
    return attention_wgmma_takes(problem) && attention_wgmma_choose(problem) != NULL;
}

static uint64_t flash_wgmma_tiles(struct gemm_context *base, const void *problem)
{
    (void)base;
    return attention_wgmma_tiles(attention_wgmma_choose_alone(problem), problem);
}

static enum gemmd_error flash_wgmma_run_tiles(struct gemm_context *base, const void *problem,
                                              struct operation_range tiles)
{
    struct cuda_context *context = cuda_context_of(base);
    if (context->sm90.encode == NULL)
        return GEMMD_ERR_INTERNAL;
    return cuda_error_code(
        (int)attention_wgmma_enqueue(&context->sm90, attention_wgmma_choose_alone(problem), problem,
                                     tiles, context->attention_next, context->stream));
}

static enum gemmd_error flash_wgmma_run(struct gemm_context *base, const void *problem,
                                        void *workspace)
{
    (void)workspace;
    const struct operation_range all = {0, flash_wgmma_tiles(base, problem)};
    return flash_wgmma_run_tiles(base, problem, all);
}

/* One launch for all members that can have the kernel of the longest member, then the others. */
static enum gemmd_error flash_wgmma_run_group(struct gemm_context *base,
                                              const struct operation_member members[],
                                              uint32_t count)
{
    struct cuda_context *context = cuda_context_of(base);
    struct attention_member ordered[ATTENTION_GROUP_MAX];
    enum gemmd_error code = GEMMD_OK;
    if (context->sm90.encode == NULL)
        return GEMMD_ERR_INTERNAL;
    attention_group_order(members, count, ordered);
    for (uint32_t done = 0; done < count && code == GEMMD_OK;) {
        const struct attention_wgmma_kernel *kernel = attention_wgmma_choose(ordered[done].problem);
        const uint32_t alike = attention_wgmma_alike(ordered + done, count - done);
        code = cuda_error_code(
            (int)attention_wgmma_enqueue_group(&context->sm90, kernel, ordered + done, alike,
                                               context->attention_next, context->stream));
        done += alike;
    }
    return code;
}

static void flash_wgmma_tile(struct gemm_context *base, const void *problem,
                             struct operation_tile *out)
{
    (void)base;
    snprintf(out->name, sizeof out->name, "%s", attention_wgmma_choose_alone(problem)->name);
}

const struct operation_kernel attention_cuda_wgmma = {
    .name = "flash_wgmma",
    .description = "tensor cores of sm_90a fed by the copy engine, softmax in their shadow",
    .compute_capability = 90,
    .takes = flash_wgmma_takes,
    .workspace_bytes = operation_no_workspace,
    .run = flash_wgmma_run,
    .tiles = flash_wgmma_tiles,
    .run_tiles = flash_wgmma_run_tiles,
    .tile = flash_wgmma_tile,
    .launch_flops = 5e13,
    .run_group = flash_wgmma_run_group,
    .group_units = ATTENTION_GROUP_UNITS_TENSOR,
};
