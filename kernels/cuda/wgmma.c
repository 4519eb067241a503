/*
 * wgmma - the kernels of kernels/cuda/sm90 as one kernel for any problem of f16, bf16 and f8.
 *
 * The copy engine wants rows that start at multiples of 16 bytes. Operands whose rows don't are
 * moved into the workspace first, at the speed of memory; a result goes through the workspace if
 * the bytes between its rows are not all its own. f8 is widened to f16, which is exact.
 */
#include "kernels/cuda/context.h"
#include "kernels/cuda/launch.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, MULTIPROCESSORS = 132 };

struct plan {
    struct gemm_problem problem; /* as it is launched; pointers only of what is not moved */
    struct realign_job a, b, c;
    bool moves_a, moves_b, moves_c;
    uint64_t a_bytes, b_bytes, c_bytes; /* of the workspace */
};

static bool starts_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype)
{
    const uint64_t bytes = dtype_size(dtype);
    return ld * bytes % 16 == 0 && (batch == 1 || (stride > 0 && stride * bytes % 16 == 0));
}

/* A matrix of `rows` by job->width in the workspace. */
static bool place(struct realign_job *job, enum gemmd_dtype dtype, uint64_t *ld, uint64_t *stride,
                  uint64_t *bytes)
{
    *ld = sm90_leading(job->width, dtype);
    return size_mul(job->rows, *ld, stride) && size_mul(*stride, job->batch, bytes) &&
           size_mul(*bytes, dtype_size(dtype), bytes) && size_align(*bytes, ALIGNMENT, bytes);
}

static bool plan_operand(const struct gemm_problem *p, const void *data, uint64_t rows,
                         uint64_t width, uint64_t *ld, uint64_t *stride, struct realign_job *job,
                         bool *moves, uint64_t *bytes)
{
    *moves = p->dtype == GEMMD_F8_E4M3 || !starts_aligned(*ld, *stride, p->batch, p->dtype);
    if (!*moves)
        return true;
    *job = (struct realign_job){.from = data,
                                .rows = rows,
                                .width = width,
                                .batch = p->batch,
                                .ld_from = *ld,
                                .stride_from = *stride,
                                .element_bytes = dtype_size(p->dtype)};
    if (!place(job, p->dtype == GEMMD_F8_E4M3 ? GEMMD_F16 : p->dtype, ld, stride, bytes))
        return false;
    job->ld_to = *ld;
    job->stride_to = *stride;
    return true;
}

static bool plan_result(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    /* Kernels write whole pieces of 16 bytes. */
    plan->moves_c = !starts_aligned(p->ldc, p->stride_c, p->batch, p->out) ||
                    p->n * dtype_size(p->out) % 16 != 0;
    if (!plan->moves_c)
        return true;
    plan->c = (struct realign_job){.to = p->c,
                                   .rows = p->m,
                                   .width = p->n,
                                   .batch = p->batch,
                                   .ld_to = p->ldc,
                                   .stride_to = p->stride_c,
                                   .element_bytes = dtype_size(p->out)};
    if (!place(&plan->c, p->out, &q->ldc, &q->stride_c, &plan->c_bytes))
        return false;
    plan->c.ld_from = q->ldc;
    plan->c.stride_from = q->stride_c;
    return true;
}

static bool plan_make(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    *plan = (struct plan){.problem = *p};
    q->dtype = p->dtype == GEMMD_F8_E4M3 ? GEMMD_F16 : p->dtype;
    return plan_operand(p, p->a, p->transa ? p->k : p->m, p->transa ? p->m : p->k, &q->lda,
                        &q->stride_a, &plan->a, &plan->moves_a, &plan->a_bytes) &&
           plan_operand(p, p->b, p->transb ? p->n : p->k, p->transb ? p->k : p->n, &q->ldb,
                        &q->stride_b, &plan->b, &plan->moves_b, &plan->b_bytes) &&
           plan_result(p, plan);
}

static bool takes(const struct gemm_problem *p)
{
    struct plan plan;
    return gemm_problem_offered(p) &&
           (p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16 || p->dtype == GEMMD_F8_E4M3) &&
           plan_make(p, &plan) && sm90_choose(&plan.problem, MULTIPROCESSORS) != NULL;
}

static bool workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    struct plan plan;
    uint64_t bytes;
    return plan_make(p, &plan) && size_add(plan.a_bytes, plan.b_bytes, &bytes) &&
           size_add(bytes, plan.c_bytes, out);
}

static enum gemmd_error move_in(cudaStream_t stream, const struct gemm_problem *p,
                                const struct realign_job *job)
{
    if (p->dtype != GEMMD_F8_E4M3)
        return realign_launch(stream, job);
    const struct widen_job widen = {.from = job->from,
                                    .to = job->to,
                                    .lines = job->rows,
                                    .length = job->width,
                                    .ld = job->ld_from,
                                    .stride = job->stride_from,
                                    .batch = job->batch,
                                    .ld_to = job->ld_to};
    return widen_launch(stream, &widen);
}

static enum gemmd_error launch_plan(struct cuda_context *context, const struct plan *plan)
{
    struct sm90_launch launch;
    const struct sm90_kernel *kernel = sm90_choose(&plan->problem, context->sm90.multiprocessors);
    if (kernel == NULL)
        return GEMMD_ERR_INTERNAL;
    cudaError_t error = sm90_prepare(&context->sm90, kernel, &plan->problem, &launch);
    if (error == cudaSuccess)
        error = sm90_enqueue(&launch, context->stream);
    return cuda_error_code((int)error);
}

static enum gemmd_error run(struct gemm_context *base, const struct gemm_problem *p,
                            void *workspace)
{
    struct cuda_context *context = cuda_context_of(base);
    struct plan plan;
    enum gemmd_error code = GEMMD_OK;
    if (context->sm90.encode == NULL || !plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    char *space = workspace;
    if (plan.moves_a) {
        plan.problem.a = plan.a.to = space;
        space += plan.a_bytes;
        code = move_in(context->stream, p, &plan.a);
    }
    if (plan.moves_b && code == GEMMD_OK) {
        plan.problem.b = plan.b.to = space;
        space += plan.b_bytes;
        code = move_in(context->stream, p, &plan.b);
    }
    if (plan.moves_c)
        plan.problem.c = space;
    if (code == GEMMD_OK)
        code = launch_plan(context, &plan);
    if (!plan.moves_c || code != GEMMD_OK)
        return code;
    plan.c.from = space;
    return realign_launch(context->stream, &plan.c);
}

const struct gemm_kernel gemm_cuda_wgmma = {
    .name = "wgmma",
    .description = "tensor cores of sm_90a fed by the copy engine, tiles chosen by shape",
    .compute_capability = 90,
    .rows_independent = true,
    .takes = takes,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
