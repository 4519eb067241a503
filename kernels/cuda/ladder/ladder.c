/*
 * The kernels of the ladder (kernels/LADDER.md) as struct operation_kernel, for the list of the
 * CUDA backend (kernels/cuda/cuda_backend.c). Their launch_flops keep a launch to about a tenth of
 * a second at most on an H100.
 */
#include "kernels/cuda/ladder/ladder.h"

#include "kernels/cuda/context.h"

static bool ladder_takes(const void *of)
{
    const struct gemm_problem *problem = of;
    return gemm_problem_unscaled(problem) && problem->dtype != GEMMD_F8_E4M3 &&
           problem->dtype != GEMMD_I8;
}

static bool ladder_takes_f32(const void *of)
{
    const struct gemm_problem *problem = of;
    return gemm_problem_unscaled(problem) && problem->dtype == GEMMD_F32;
}

static enum gemmd_error naive_run(struct gemm_context *context, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    return naive_launch(cuda_context_of(context)->stream, problem);
}

static enum gemmd_error tiled_run(struct gemm_context *context, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    return tiled_launch(cuda_context_of(context)->stream, problem);
}

static enum gemmd_error tiled_padded_run(struct gemm_context *context, const void *of,
                                         void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    return tiled_padded_launch(cuda_context_of(context)->stream, problem);
}

static enum gemmd_error double_buffered_run(struct gemm_context *context, const void *of,
                                            void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    return double_buffered_launch(cuda_context_of(context)->stream, problem);
}

const struct operation_kernel gemm_cuda_naive = {
    .name = "naive",
    .description = "one thread an element, operands from device memory each time",
    .rows_independent = true,
    .any_leading = true,
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = ladder_takes,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 1e11,
    .run = naive_run,
};

const struct operation_kernel gemm_cuda_tiled = {
    .name = "tiled",
    .description = "tiles of 32 x 32 in shared memory",
    .rows_independent = true,
    .any_leading = true,
    .takes = ladder_takes,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e11,
    .run = tiled_run,
};

const struct operation_kernel gemm_cuda_tiled_padded = {
    .name = "tiled_padded",
    .description = "tiled without bank conflicts where B is transposed",
    .takes = ladder_takes_f32,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e11,
    .run = tiled_padded_run,
};

const struct operation_kernel gemm_cuda_double_buffered = {
    .name = "double_buffered",
    .description = "tiled_padded with the next tiles on their way by cp.async",
    .takes = ladder_takes_f32,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e11,
    .run = double_buffered_run,
};
