/* The kernels of reductions on CUDA: which problems each takes, and its workspace. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/reduce/reduce.h"
#include "proto/size.h"

static bool reduce_naive_takes(const void *problem)
{
    return reduce_problem_offered(problem) &&
           cuda_grid_fits(size_blocks(reduce_results(problem), 128), 1);
}

static enum gemmd_error reduce_naive_run(struct gemm_context *context, const void *problem,
                                         void *workspace)
{
    (void)workspace;
    return reduce_naive_launch(cuda_context_of(context)->stream, problem);
}

static const struct operation_kernel naive = {
    .name = "naive",
    .description =
        "one thread a result, summed in f64; coalesced over an axis before the last only",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = reduce_naive_takes,
    .workspace_bytes = operation_no_workspace,
    .run = reduce_naive_run,
};

static bool reduce_tree_takes(const void *problem)
{
    const struct reduce_problem *p = problem;
    return reduce_problem_offered(problem) && reduce_is_of_rows(p) &&
           cuda_grid_fits(p->outer * p->mid, reduce_tree_blocks(p->length));
}

static bool reduce_tree_workspace_bytes(const void *problem, uint64_t *out)
{
    const struct reduce_problem *p = problem;
    return size_mul(p->outer * p->mid, reduce_tree_blocks(p->length) * REDUCE_STATE_BYTES, out);
}

static enum gemmd_error reduce_tree_run(struct gemm_context *context, const void *problem,
                                        void *workspace)
{
    return reduce_tree_launch(cuda_context_of(context)->stream, problem, workspace);
}

static const struct operation_kernel tree = {
    .name = "tree",
    .description = "rows by a tree in shared memory, then the blocks' states in a second launch",
    .takes = reduce_tree_takes,
    .workspace_bytes = reduce_tree_workspace_bytes,
    .run = reduce_tree_run,
};

static bool reduce_shuffle_takes(const void *problem)
{
    return reduce_problem_offered(problem) && cuda_grid_fits(reduce_shuffle_blocks(problem), 1);
}

/* `tree` is faster for the logsumexp of long rows of f64, for which `shuffle` needs so many
 * registers that few of its threads run at once (kernels/experiments/rows.md). */
static const struct operation_kernel *reduce_shuffle_preferred(const void *problem)
{
    const struct reduce_problem *p = problem;
    return p->dtype == GEMMD_F64 && p->op == REDUCE_LOGSUMEXP && p->length >= 32768 &&
                   reduce_is_of_rows(p)
               ? &tree
               : NULL;
}

static bool reduce_shuffle_workspace_bytes(const void *problem, uint64_t *out)
{
    *out = reduce_shuffle_workspace(problem);
    return true;
}

static enum gemmd_error reduce_shuffle_run_group(struct gemm_context *context,
                                                 const struct operation_member members[],
                                                 uint32_t count)
{
    return reduce_shuffle_launch(cuda_context_of(context)->stream, members, count);
}

static const struct operation_kernel shuffle = {
    .name = "shuffle",
    .description = "128-bit loads, a pairwise tree in registers, warp shuffles; one launch",
    .takes = reduce_shuffle_takes,
    .preferred_kernel = reduce_shuffle_preferred,
    .workspace_bytes = reduce_shuffle_workspace_bytes,
    .run_group = reduce_shuffle_run_group,
};

const struct operation_kernel *const reduce_cuda_kernels[] = {&shuffle, &tree, &naive, NULL};
