/* The candidate `streamed`, for benchmarks and checks. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/softmax/softmax.h"

/* Up to 16,384 elements `online` keeps a row in the registers of a block, and is faster. */
static bool streamed_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_problem_offered(problem) &&
           (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           p->length > 16384 && p->length <= SOFTMAX_STREAMED_MAX;
}

static enum gemmd_error streamed_run(struct gemm_context *context, const void *problem,
                                     void *workspace)
{
    (void)workspace;
    return softmax_streamed_launch(cuda_context_of(context)->stream, problem);
}

const struct operation_kernel softmax_cuda_streamed = {
    .name = "streamed",
    .description = "long rows in clusters of blocks, read and written once, copied ahead",
    .compute_capability = 90,
    .takes = streamed_takes,
    .workspace_bytes = operation_no_workspace,
    .run = streamed_run,
};
