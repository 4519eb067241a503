/* The kernels of the softmax on CUDA: which problems each takes, and its workspace. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/softmax/softmax.h"
#include "proto/dtype.h"
#include "proto/size.h"

static bool is_narrow(const struct softmax_problem *p)
{
    return p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16;
}

static bool softmax_naive_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_problem_offered(problem) && cuda_grid_fits(size_blocks(p->rows, 64), 1);
}

static enum gemmd_error softmax_naive_run(struct gemm_context *context, const void *problem,
                                          void *workspace)
{
    (void)workspace;
    return softmax_naive_launch(cuda_context_of(context)->stream, problem);
}

static const struct operation_kernel naive = {
    .name = "naive",
    .description = "one thread a row, in f64, three passes",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = softmax_naive_takes,
    .workspace_bytes = operation_no_workspace,
    .run = softmax_naive_run,
};

static bool softmax_tree_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_problem_offered(problem) && is_narrow(p) &&
           cuda_grid_fits(p->rows, size_blocks(p->length, 256));
}

static bool softmax_tree_workspace_bytes(const void *problem, uint64_t *out)
{
    const struct softmax_problem *p = problem;
    return size_mul(p->rows, 2 * sizeof(float), out);
}

static enum gemmd_error softmax_tree_run(struct gemm_context *context, const void *problem,
                                         void *workspace)
{
    return softmax_tree_launch(cuda_context_of(context)->stream, problem, workspace);
}

static const struct operation_kernel tree = {
    .name = "tree",
    .description = "maximum and sum by trees in shared memory, the result in a second launch",
    .takes = softmax_tree_takes,
    .workspace_bytes = softmax_tree_workspace_bytes,
    .run = softmax_tree_run,
};

static bool softmax_online_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    return softmax_problem_offered(problem) && cuda_grid_fits(p->rows, 1);
}

static enum gemmd_error softmax_online_run_group(struct gemm_context *context,
                                                 const struct operation_member members[],
                                                 uint32_t count)
{
    return softmax_online_launch(cuda_context_of(context)->stream, members, count);
}

static const struct operation_kernel online = {
    .name = "online",
    .description = "rows in registers, read and written once; longer rows online, read twice",
    .takes = softmax_online_takes,
    .workspace_bytes = operation_no_workspace,
    .run_group = softmax_online_run_group,
};

static bool softmax_clustered_takes(const void *problem)
{
    const struct softmax_problem *p = problem;
    const uint64_t parts =
        size_blocks(p->length * dtype_size(p->dtype), SOFTMAX_CLUSTERED_PART_BYTES);
    const uint64_t each = dtype_size(p->out) > dtype_size(p->dtype) ? 1 : 2; /* of a block */
    return softmax_problem_offered(problem) && is_narrow(p) && parts > 1 &&
           parts <= each * SOFTMAX_CLUSTERED_BLOCKS &&
           cuda_grid_fits(p->rows, SOFTMAX_CLUSTERED_BLOCKS);
}

static enum gemmd_error softmax_clustered_run(struct gemm_context *context, const void *problem,
                                              void *workspace)
{
    (void)workspace;
    return softmax_clustered_launch(cuda_context_of(context)->stream, problem);
}

static const struct operation_kernel clustered = {
    .name = "clustered",
    .description = "long rows in the registers of a cluster of blocks, read and written once",
    .compute_capability = 90,
    .takes = softmax_clustered_takes,
    .workspace_bytes = operation_no_workspace,
    .run = softmax_clustered_run,
};

const struct operation_kernel *const softmax_cuda_kernels[] = {&clustered, &online, &tree, &naive,
                                                               NULL};
