/* The kernels for packed weights as an entry of the backend's list. */
#include "kernels/cuda/packed/packed.h"

#include "kernels/cuda/context.h"

static enum gemmd_error packed_run(struct gemm_context *base, const void *problem, void *workspace)
{
    const struct cuda_context *context = cuda_context_of(base);
    (void)workspace;
    return context->sm90.encode != NULL
               ? packed_sm90_launch(context->stream, problem, context->multiprocessors)
               : packed_launch(context->stream, problem);
}

const struct operation_kernel gemm_cuda_packed = {
    .name = "packed",
    .description = "packed weights, unpacked in registers for mma.sync and wgmma",
    .rows_independent = true,
    .any_leading = true,
    .takes = gemm_problem_packed,
    .workspace_bytes = operation_no_workspace,
    .launch_flops = 5e12,
    .run = packed_run,
};
