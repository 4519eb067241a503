#include "kernels/launch_cut.h"

#include <math.h>

#include "proto/size.h"

void launch_cut_make(const struct task *task, struct gemm_context *context, struct launch_cut *cut)
{
    const struct operation *operation = task->operation;
    const struct operation_kernel *kernel = task->kernel;
    const void *problem = &task->problem;
    if (operation->cut != NULL) {
        operation->cut(kernel, problem, cut);
        return;
    }
    *cut = (struct launch_cut){.launches = 1};
    if (kernel->tiles == NULL)
        return;
    const uint64_t tiles = kernel->tiles(context, problem);
    const double cost = operation->launch_cost != NULL ? operation->launch_cost(problem)
                                                       : operation->flops(problem);
    const double launches =
        fmin(ceil(cost / operation_launch_flops(kernel, problem)), (double)tiles);
    cut->all = tiles;
    cut->each = launches > 1 ? size_blocks(tiles, (uint64_t)launches) : tiles;
    cut->launches = tiles > 0 ? size_blocks(tiles, cut->each) : 1;
}

enum gemmd_error launch_cut_run(const struct launch_cut *cut, const struct task *task,
                                struct gemm_context *context, uint64_t index, void *workspace)
{
    const struct operation_kernel *kernel = task->kernel;
    union operation_problem piece;
    if (cut->launches <= 1)
        return operation_run(kernel, context, &task->problem, workspace);
    if (task->operation->cut_piece != NULL) {
        task->operation->cut_piece(cut, &task->problem, index, &piece);
        return operation_run(kernel, context, &piece, workspace);
    }
    const uint64_t first = index * cut->each, left = cut->all - first;
    const struct operation_range tiles = {first, left < cut->each ? left : cut->each};
    return kernel->run_tiles(context, &task->problem, tiles);
}
