#include "kernels/backend.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/decode.h"
#include "kernels/cuda/attention/flash_mma.h"
#include "kernels/cuda/attention/tiled.h"
#include "kernels/cuda/sm90/attention/decode_wgmma.h"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"

static uint64_t attention_naive_tiles(struct gemm_context *context, const void *of)
{
    const struct attention_problem *problem = of;
    (void)context;
    return attention_entries_apart(problem) * problem->heads * problem->sq;
}

static enum gemmd_error attention_run_naive_tiles(struct gemm_context *context, const void *problem,
                                                  struct operation_range tiles)
{
    return attention_naive_launch(cuda_context_of(context)->stream, problem, tiles);
}

static enum gemmd_error attention_run_naive(struct gemm_context *context, const void *problem,
                                            void *workspace)
{
    (void)workspace;
    const struct operation_range all = {0, attention_naive_tiles(context, problem)};
    return attention_run_naive_tiles(context, problem, all);
}

static const struct operation_kernel naive = {
    .name = "naive",
    .description = "one block a row, the scores computed anew for each of the three steps",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = attention_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = attention_run_naive,
    .tiles = attention_naive_tiles,
    .run_tiles = attention_run_naive_tiles,
    .launch_flops = 1e11,
};

const struct operation_kernel *const attention_cuda_kernels[] = {
    &attention_cuda_decode,
    &attention_cuda_wgmma,
    &attention_cuda_flash_mma,
    &attention_cuda_tiled,
    &naive,
    NULL,
};

static enum gemmd_error attention_prepare_wgmma(struct cuda_context *context)
{
    const size_t bytes = sizeof *context->attention_next;
    cudaError_t error = attention_wgmma_prepare();
    if (error == cudaSuccess)
        error = decode_wgmma_prepare();
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&context->attention_next, bytes);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(context->attention_next, 0, bytes, context->stream);
    return cuda_error_code((int)error);
}

enum gemmd_error attention_cuda_prepare(struct cuda_context *context)
{
    enum gemmd_error code = attention_tiled_prepare_f32(context->shared_bytes);
    if (code == GEMMD_OK)
        code = attention_tiled_prepare_f16(context->shared_bytes);
    if (code == GEMMD_OK)
        code = attention_tiled_prepare_bf16(context->shared_bytes);
    if (code == GEMMD_OK)
        code = attention_tiled_prepare_group_f32(context->shared_bytes);
    if (code == GEMMD_OK)
        code = attention_decode_prepare();
    if (code == GEMMD_OK)
        code = attention_flash_mma_prepare();
    if (code == GEMMD_OK && context->sm90.encode != NULL)
        code = attention_prepare_wgmma(context);
    return code;
}
