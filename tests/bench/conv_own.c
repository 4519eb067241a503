/* Our kernels, by name, and the tiles of `implicit` each as one of them. */
#include <string.h>

#include "tests/bench/conv.h"

int conv_own_list(enum gemmd_dtype dtype, struct conv_own own[CONV_OWN_MAX])
{
    int count = 0;
    for (const struct operation_kernel *const *k = conv_cuda_kernels;
         *k != NULL && count < CONV_OWN_MAX; k++)
        own[count++] = (struct conv_own){.name = (*k)->name, .kernel = *k};
    for (const struct sm90_kernel *tile = sm90_conv_kernels(dtype);
         tile != NULL && tile->name != NULL && count < CONV_OWN_MAX; tile++)
        own[count++] =
            (struct conv_own){.name = tile->name, .kernel = &conv_cuda_implicit, .tile = tile};
    return count;
}

bool conv_own_takes(const struct conv_own *own, const struct conv_problem *problem)
{
    const double slow_flops = 5e9, product_flops = 2e11; /* about 10 ms */
    if (!own->kernel->takes(problem))
        return false;
    if (strcmp(own->name, "naive") == 0)
        return conv_flops(problem) < slow_flops;
    return strcmp(own->name, "tiled") != 0 || conv_flops(problem) < product_flops;
}

enum gemmd_error conv_own_run(const struct conv_own *own, struct gemm_context *context,
                              const struct conv_problem *problem, void *workspace)
{
    return own->tile != NULL ? conv_implicit_run_with(context, own->tile, problem, workspace)
                             : operation_run(own->kernel, context, problem, workspace);
}
