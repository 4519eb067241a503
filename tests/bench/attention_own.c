/* Our kernels, by name, and the tiles of flash_wgmma each as one of them. */
#include "kernels/cuda/attention.h"
#include "kernels/cuda/sm90/attention_wgmma.h"
#include "tests/bench/attention.h"

#include <string.h>

int attention_own_list(enum gemmd_dtype dtype, struct attention_own own[ATTENTION_OWN_MAX])
{
    int count = 0;
    for (const struct attention_kernel *const *k = attention_cuda_kernels;
         *k != NULL && count < ATTENTION_OWN_MAX; k++)
        own[count++] = (struct attention_own){.name = (*k)->name, .kernel = *k};
    for (const struct attention_wgmma_kernel *tile = attention_wgmma_kernels(dtype);
         tile != NULL && tile->name != NULL && count < ATTENTION_OWN_MAX; tile++)
        own[count++] = (struct attention_own){
            .name = tile->name, .kernel = &attention_cuda_wgmma, .tile = tile};
    return count;
}

bool attention_own_takes(const struct attention_own *own, const struct attention_problem *problem)
{
    const double slow_flops = 1e11; /* a tenth of a second, for what keeps no tile */
    if (!own->kernel->takes(problem))
        return false;
    if (strcmp(own->kernel->name, "naive") == 0)
        return attention_flops(problem) < slow_flops;
    /* Tiles for wider heads are slower beyond doubt. */
    return own->tile == NULL || own->tile->width == attention_wgmma_choose(problem)->width;
}

enum gemmd_error attention_own_run(const struct attention_own *own, struct gemm_context *context,
                                   const struct attention_problem *problem, void *workspace)
{
    if (own->tile == NULL)
        return own->kernel->run(context, problem, workspace);
    struct cuda_context *cuda = cuda_context_of(context);
    return cuda_error_code(
        (int)attention_wgmma_enqueue(&cuda->sm90, own->tile, problem, workspace, cuda->stream));
}
