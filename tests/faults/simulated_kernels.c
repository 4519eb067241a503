/*
 * simulated_kernels - kernels for the GPU of simulated_cuda.c: the CPU's, behind a launch that a
 * test can make fail. Products with a larger B than B_MAX and attentions with wider heads than
 * WIDTH_MAX or more scores than SCORES_MAX are not taken: the daemon warms up with hundreds of
 * products and attentions, and all of them would take ten seconds a start under a sanitizer.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda_error.h"
#include "kernels/freivalds.h"
#include "kernels/operations.h"

enum { B_MAX = 200 * 200, WIDTH_MAX = 64, SCORES_MAX = 1 << 15 }; /* elements */

struct simulated_context {
    struct gemm_context base;
    cudaStream_t stream;
    struct gemm_context *cpu;
};

static struct gemm_context *cpu_of(struct gemm_context *context)
{
    return ((struct simulated_context *)context)->cpu;
}

static enum gemmd_error launch_on(cudaStream_t stream)
{
    const cudaLaunchConfig_t config = {.stream = stream};
    return cuda_error_code((int)cudaLaunchKernelExC(&config, NULL, NULL));
}

static enum gemmd_error launch_in(struct gemm_context *context)
{
    return launch_on(((struct simulated_context *)context)->stream);
}

/* ---- products ---- */

static bool takes(const void *of)
{
    const struct gemm_problem *p = of;
    return gemm_cpu_tiled.takes(p) && p->packed.bits == 0 && p->n <= B_MAX && p->k <= B_MAX / p->n;
}

static enum gemmd_error run(struct gemm_context *context, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    const enum gemmd_error code = launch_in(context);
    return code != GEMMD_OK ? code
                            : operation_run(&gemm_cpu_tiled, cpu_of(context), problem, workspace);
}

static enum gemmd_error run_group(struct gemm_context *context,
                                  const struct operation_member members[], uint32_t count)
{
    enum gemmd_error code = launch_in(context);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = operation_run(&gemm_cpu_tiled, cpu_of(context), members[i].problem, NULL);
    return code;
}

static const struct operation_kernel kernel_large = {
    .name = "large",
    .description = "one product in several launches",
    .rows_independent = true,
    .any_leading = true,
    .launch_flops = 1e6,
    .takes = takes,
    .workspace_bytes = operation_no_workspace,
    .run = run,
};
static const struct operation_kernel kernel_small = {
    .name = "small",
    .description = "many small products in one launch",
    .rows_independent = true,
    .any_leading = true,
    .takes = takes,
    .workspace_bytes = operation_no_workspace,
    .run = run,
    .run_group = run_group,
};
static const struct operation_kernel kernel_packed = {
    .name = "packed",
    .description = "packed weights",
    .rows_independent = true,
    .any_leading = true,
    .launch_flops = 1e6,
    .takes = gemm_problem_packed,
    .workspace_bytes = operation_no_workspace,
    .run = run,
};
static const struct operation_kernel *const kernels[] = {&kernel_large, &kernel_small,
                                                         &kernel_packed, NULL};

/* ---- attentions ---- */

/* Not all attentions, so that tests see a device's refusals. */
static bool takes_attention(const void *problem)
{
    const struct attention_problem *p = problem;
    return !p->ragged && !p->right_windowed && p->slopes == NULL && p->sinks == NULL &&
           p->batch * p->heads * p->sq * p->skv <= SCORES_MAX && p->d <= WIDTH_MAX &&
           p->dv <= WIDTH_MAX && attention_problem_offered(p);
}

static enum gemmd_error run_attention(struct gemm_context *context, const void *problem,
                                      void *workspace)
{
    const enum gemmd_error code = launch_in(context);
    return code != GEMMD_OK
               ? code
               : operation_run(&attention_cpu_tiled, cpu_of(context), problem, workspace);
}

static enum gemmd_error run_attentions(struct gemm_context *context,
                                       const struct operation_member members[], uint32_t count)
{
    enum gemmd_error code = launch_in(context);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++)
        code = operation_run(&attention_cpu_tiled, cpu_of(context), members[i].problem,
                             members[i].workspace);
    return code;
}

static const struct operation_kernel kernel_attention = {
    .name = "attention",
    .description = "attentions, alone and together",
    .takes = takes_attention,
    .workspace_bytes = operation_no_workspace,
    .run = run_attention,
    .run_group = run_attentions,
    .group_units = 1000,
};
static const struct operation_kernel *const attention[] = {&kernel_attention, NULL};

/* ---- the backend ---- */

static void simulated_destroy(struct gemm_context *base)
{
    gemm_context_destroy(cpu_of(base));
    free(base);
}

static enum gemmd_error simulated_create(void *stream, uint32_t threads, struct gemm_context **out,
                                         struct fault *fault)
{
    (void)threads;
    struct simulated_context *context = calloc(1, sizeof *context);
    *out = NULL;
    if (context == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a context");
    context->base.backend = &gemm_backend_cuda;
    context->stream = stream;
    const enum gemmd_error code = gemm_backend_cpu.context_create(NULL, 1, &context->cpu, fault);
    if (code == GEMMD_OK)
        *out = &context->base;
    else
        free(context);
    return code;
}

enum gemmd_error move_rows_launch(cudaStream_t stream, const struct gemm_moves *moves)
{
    const enum gemmd_error code = launch_on(stream);
    return code != GEMMD_OK ? code : gemm_backend_cpu.move_rows(NULL, moves);
}

static enum gemmd_error simulated_move_rows(struct gemm_context *context,
                                            const struct gemm_moves *moves)
{
    return move_rows_launch(((struct simulated_context *)context)->stream, moves);
}

static enum gemmd_error simulated_check(struct gemm_context *context,
                                        const struct gemm_problem *problem, uint64_t seed,
                                        double *residuals, void *workspace)
{
    const enum gemmd_error code = launch_in(context);
    return code != GEMMD_OK
               ? code
               : gemm_backend_cpu.check(cpu_of(context), problem, seed, residuals, workspace);
}

static enum gemmd_error simulated_check_small(struct gemm_context *context,
                                              struct operation_small_check *checks, uint32_t count)
{
    enum gemmd_error code = launch_in(context);
    for (uint32_t i = 0; i < count && code == GEMMD_OK; i++) {
        const struct gemm_problem *problem = &checks[i].problem.gemm;
        uint64_t bytes = 0;
        double *workspace = freivalds_bytes(problem, &bytes) ? malloc(bytes) : NULL;
        if (workspace == NULL)
            return GEMMD_ERR_OUT_OF_MEMORY;
        code = gemm_backend_cpu.check(cpu_of(context), problem, checks[i].seed, NULL, workspace);
        checks[i].residual = workspace[0];
        free(workspace);
    }
    return code;
}

static const char *simulated_library(void)
{
    return "none";
}

const struct gemm_backend_entry gemm_backend_cuda = {
    .name = "cuda",
    .kernels = {[OPERATION_GEMM] = kernels, [OPERATION_ATTENTION] = attention},
    .context_create = simulated_create,
    .context_destroy = simulated_destroy,
    .move_rows = simulated_move_rows,
    .check = simulated_check,
    .check_small = simulated_check_small,
    .library = simulated_library,
};

/* ---- copies ---- */

enum gemmd_error realign_launch(cudaStream_t stream, const struct realign_job *job)
{
    const enum gemmd_error code = launch_on(stream);
    const uint64_t size = job->element_bytes;
    for (uint64_t i = 0; i < job->batch && code == GEMMD_OK; i++)
        for (uint64_t row = 0; row < job->rows; row++)
            memcpy((char *)job->to + (i * job->stride_to + row * job->ld_to) * size,
                   (const char *)job->from + (i * job->stride_from + row * job->ld_from) * size,
                   job->width * size);
    return code;
}

enum gemmd_error move_spans_launch(cudaStream_t stream, const struct span_moves *moves)
{
    const enum gemmd_error code = launch_on(stream);
    for (uint32_t i = 0; i < moves->count && code == GEMMD_OK; i++)
        memcpy(moves->list[i].to, moves->list[i].from, moves->list[i].bytes);
    return code;
}
