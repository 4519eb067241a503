#include "tests/gpu/launches.h"

#include "kernels/launch_cut.h"

enum gemmd_error launches_run(const struct task *task, struct gemm_context *context,
                              uint32_t launches, void *workspace)
{
    const struct operation *operation = task->operation;
    struct operation_kernel shorter = *task->kernel;
    const struct task cut_task = {
        .operation = operation, .kernel = &shorter, .problem = task->problem};
    struct launch_cut cut;
    enum gemmd_error code = GEMMD_OK;
    if (launches > 1 && shorter.launch_flops > 0) {
        const double cost = operation->launch_cost != NULL ? operation->launch_cost(&task->problem)
                                                           : operation->flops(&task->problem);
        shorter.launch_flops = cost / launches;
    }
    launch_cut_make(&cut_task, context, &cut);
    for (uint64_t i = 0; i < cut.launches && code == GEMMD_OK; i++)
        code = launch_cut_run(&cut, &cut_task, context, i, workspace);
    return code;
}
