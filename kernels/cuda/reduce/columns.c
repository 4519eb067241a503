/* The candidate `columns`, for benchmarks and checks. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/reduce/reduce.h"
#include "proto/size.h"

static bool reduce_columns_takes(const void *problem)
{
    const struct reduce_problem *p = problem;
    uint64_t blocks;
    return reduce_problem_offered(problem) && !reduce_is_of_rows(p) &&
           (p->op == REDUCE_SUM || p->op == REDUCE_MEAN) &&
           (p->dtype == GEMMD_F32 || p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           size_mul(reduce_columns_places(p), reduce_shuffle_chunks(p->length, false), &blocks) &&
           blocks <= INT32_MAX;
}

static bool reduce_columns_workspace_bytes(const void *problem, uint64_t *out)
{
    const struct reduce_problem *p = problem;
    const uint64_t chunks = reduce_shuffle_chunks(p->length, false);
    const uint64_t each = REDUCE_COLUMNS_TILE * chunks * sizeof(float) + sizeof(uint32_t);
    *out = 0;
    return chunks == 1 || size_mul(reduce_columns_places(p), each, out);
}

static enum gemmd_error reduce_columns_run(struct gemm_context *context, const void *problem,
                                           void *workspace)
{
    return reduce_columns_launch(cuda_context_of(context)->stream, problem, workspace);
}

const struct operation_kernel reduce_cuda_columns = {
    .name = "columns",
    .description = "sums over an axis before the last, with more loads in flight",
    .takes = reduce_columns_takes,
    .workspace_bytes = reduce_columns_workspace_bytes,
    .run = reduce_columns_run,
};
