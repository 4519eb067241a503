/* Our kernels, by name, and the tiles of flash_wgmma each as one of them. */
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/sm90/attention/flash_wgmma.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "tests/bench/attention.h"

#include <string.h>

int attention_own_list(enum gemmd_dtype dtype, struct attention_own own[ATTENTION_OWN_MAX])
{
    int count = 0;
    for (const struct operation_kernel *const *k = attention_cuda_kernels;
         *k != NULL && count < ATTENTION_OWN_MAX; k++)
        own[count++] = (struct attention_own){.name = (*k)->name, .kernel = *k};
    const struct attention_wgmma_kernel *const tables[] = {attention_wgmma_kernels(dtype),
                                                           attention_one_step_kernels(dtype)};
    for (int t = 0; t < 2; t++)
        for (const struct attention_wgmma_kernel *tile = tables[t];
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
    return own->tile == NULL || (own->tile->width == attention_wgmma_choose(problem)->width &&
                                 attention_wgmma_kernel_takes(own->tile, problem));
}

enum { WORKSPACE_ALIGNMENT = 256, ENTRIES_MAX = 64 };

bool attention_own_launches(const struct attention_own *own, const struct attention_cell *cell)
{
    return cell->launches == ATTENTION_WHOLE ||
           (own->tile == NULL &&
            (cell->launches == ATTENTION_ONE_BY_ONE || own->kernel->run_group != NULL));
}

static uint64_t entry_workspace_bytes(const struct attention_own *own,
                                      const struct attention_problem *problem)
{
    struct attention_problem entry = *problem;
    uint64_t bytes = 0;
    entry.batch = 1;
    if (!own->kernel->workspace_bytes(&entry, &bytes))
        return 0;
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

uint64_t attention_own_workspace_bytes(const struct attention_own *own,
                                       const struct attention_cell *cell,
                                       const struct attention_problem *problem)
{
    uint64_t bytes = 0;
    if (cell->launches != ATTENTION_WHOLE)
        return problem->batch * entry_workspace_bytes(own, problem);
    return own->kernel->workspace_bytes(problem, &bytes) ? bytes : 0;
}

enum gemmd_error attention_own_launch(const struct attention_own *own,
                                      const struct attention_cell *cell,
                                      struct gemm_context *context,
                                      const struct attention_problem *problem, void *workspace)
{
    struct attention_problem entries[ENTRIES_MAX];
    struct operation_member members[ENTRIES_MAX];
    if (cell->launches == ATTENTION_WHOLE || problem->batch > ENTRIES_MAX)
        return attention_own_run(own, context, problem, workspace);
    const uint64_t size = dtype_size(problem->dtype);
    const uint64_t bytes = entry_workspace_bytes(own, problem);
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t i = 0; i < problem->batch && code == GEMMD_OK; i++) {
        struct attention_problem *p = &entries[i];
        *p = *problem;
        p->batch = 1;
        p->q = (const char *)p->q + i * p->q_strides.batch * size;
        p->k = (const char *)p->k + i * p->k_strides.batch * size;
        p->v = (const char *)p->v + i * p->v_strides.batch * size;
        p->o = (char *)p->o + i * p->o_strides.batch * size;
        members[i] = (struct operation_member){p, (char *)workspace + i * bytes};
        if (cell->launches == ATTENTION_ONE_BY_ONE)
            code = attention_own_run(own, context, p, members[i].workspace);
    }
    if (cell->launches == ATTENTION_TOGETHER)
        code = own->kernel->run_group(context, members, (uint32_t)problem->batch);
    return code;
}

enum gemmd_error attention_own_run(const struct attention_own *own, struct gemm_context *context,
                                   const struct attention_problem *problem, void *workspace)
{
    if (own->tile == NULL)
        return operation_run(own->kernel, context, problem, workspace);
    struct cuda_context *cuda = cuda_context_of(context);
    const struct operation_range all = {0, attention_wgmma_tiles(own->tile, problem)};
    return cuda_error_code((int)attention_wgmma_enqueue(&cuda->sm90, own->tile, problem, all,
                                                        cuda->attention_next, cuda->stream));
}
