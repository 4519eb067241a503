/* The kernel for scales on any GPU as an entry of the backend's list. */
#include "kernels/cuda/simt/scaled.h"

#include "kernels/cuda/context.h"

static bool scaled_takes(const void *of)
{
    const struct gemm_problem *problem = of;
    return problem->scales != GEMM_SCALES_NONE && gemm_problem_offered(problem);
}

static enum gemmd_error scaled_run(struct gemm_context *context, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    (void)workspace;
    return scaled_launch(cuda_context_of(context)->stream, problem);
}

const struct operation_kernel gemm_cuda_scaled = {
    .name = "scaled",
    .description = "operands with scales on CUDA cores, tiles of 64 x 64 in shared memory",
    .rows_independent = true,
    .any_leading = true,
    .takes = scaled_takes,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e11,
    .run = scaled_run,
};
