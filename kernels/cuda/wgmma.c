/*
 * wgmma - the kernels of kernels/cuda/sm90 as one kernel for any problem of the types they have.
 *
 * They want rows that start at multiples of 16 bytes, operands of i8 along k, and A of tf32. What
 * is not so is moved into the workspace first, at the speed of memory; a result goes through the
 * workspace if the bytes between its rows are not all its own. f8 is widened to f16, which is
 * exact; f32 is split into three parts, which together are as exact, except where the kernel that
 * is chosen splits it itself.
 */
#include "kernels/cuda/context.h"
#include "kernels/cuda/operand.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { MULTIPROCESSORS = 132 };

/* The small products of parts are one chain of the tensor core, which cuts off what it adds: beyond
 * this its error would come near that of FMAs. */
enum { SPLIT_K_MAX = 1 << 20 };
enum { SPLIT_MIN = 512 };

struct plan {
    struct gemm_problem problem; /* as it is launched; pointers only of what is not moved */
    struct operand a, b, c;
};

static bool is_split(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

static bool wants_a_along_k(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_I8 || (p->dtype == GEMMD_F32 && !is_split(p));
}

static bool wants_b_along_k(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_I8;
}

static bool starts_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype)
{
    return operand_is_aligned(ld, stride, batch, dtype) && (batch == 1 || stride > 0);
}

/* `turned`: the operand lies across k, and may not. */
static enum operand_way way_of(const struct gemm_problem *p, bool turned, uint64_t ld,
                               uint64_t stride)
{
    if (p->dtype == GEMMD_F8_E4M3)
        return OPERAND_WIDENED;
    if (is_split(p))
        return OPERAND_SPLIT;
    if (turned)
        return OPERAND_TRANSPOSED;
    return starts_aligned(ld, stride, p->batch, p->dtype) ? OPERAND_STAYS : OPERAND_REALIGNED;
}

static bool plan_result(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    /* Kernels write whole pieces of 16 bytes. */
    if (starts_aligned(p->ldc, p->stride_c, p->batch, p->out) &&
        p->n * dtype_size(p->out) % 16 == 0)
        return true;
    plan->c.way = OPERAND_REALIGNED;
    plan->c.job = (struct realign_job){.to = p->c,
                                       .rows = p->m,
                                       .width = p->n,
                                       .batch = p->batch,
                                       .ld_to = p->ldc,
                                       .stride_to = p->stride_c,
                                       .element_bytes = dtype_size(p->out)};
    if (!operand_place(p->m, p->n, p->batch, p->out, &q->ldc, &q->stride_c, &plan->c.bytes))
        return false;
    plan->c.job.ld_from = q->ldc;
    plan->c.job.stride_from = q->stride_c;
    return true;
}

static bool plan_make(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    *plan = (struct plan){
        .problem = *p,
        .a.way = way_of(p, p->transa && wants_a_along_k(p), p->lda, p->stride_a),
        .b.way = way_of(p, !p->transb && wants_b_along_k(p), p->ldb, p->stride_b),
    };
    if (!operands_plan(p, q, &plan->a, &plan->b) || !plan_result(p, plan))
        return false;
    if (p->dtype == GEMMD_F8_E4M3)
        q->dtype = GEMMD_F16;
    return true;
}

static bool takes(const struct gemm_problem *p)
{
    struct plan plan;
    return gemm_problem_offered(p) && (!is_split(p) || p->k <= SPLIT_K_MAX) &&
           plan_make(p, &plan) && sm90_choose(&plan.problem, MULTIPROCESSORS) != NULL;
}

/* Never looks at m and batch: rows have the same bits in any company. */
static bool suits(const struct gemm_problem *p)
{
    /* Measured at kernels/EXPERIMENTS.md: turning A costs more than tf32 gains; splitting
     * pays, and errs less than a chain on all operands, from so many columns and so much k on. */
    if (is_split(p))
        return p->n >= SPLIT_MIN && p->k >= SPLIT_MIN;
    return p->dtype != GEMMD_F32 || !p->transa;
}

static bool workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    struct plan plan;
    uint64_t bytes;
    return plan_make(p, &plan) && size_add(plan.a.bytes, plan.b.bytes, &bytes) &&
           size_add(bytes, plan.c.bytes, out);
}

static enum gemmd_error launch_plan(struct cuda_context *context, const struct sm90_kernel *kernel,
                                    const struct gemm_problem *whole, const struct plan *plan)
{
    const struct gemm_problem *q = &plan->problem;
    const struct sm90_parts parts = {{q->a, q->lda, q->stride_a}, {q->b, q->ldb, q->stride_b}};
    struct gemm_problem problem = *q;
    struct sm90_launch launch;
    if (is_split(whole)) {
        problem.a = whole->a;
        problem.b = whole->b;
        problem.lda = whole->lda;
        problem.ldb = whole->ldb;
        problem.stride_a = whole->stride_a;
        problem.stride_b = whole->stride_b;
    }
    cudaError_t error =
        sm90_prepare(&context->sm90, kernel, &problem, is_split(whole) ? &parts : NULL, &launch);
    if (error == cudaSuccess)
        error = sm90_enqueue(&launch, context->stream);
    return cuda_error_code((int)error);
}

static enum gemmd_error run(struct gemm_context *base, const struct gemm_problem *p,
                            void *workspace)
{
    struct cuda_context *context = cuda_context_of(base);
    struct plan plan;
    if (context->sm90.encode == NULL || !plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    const struct sm90_kernel *kernel = sm90_choose(&plan.problem, context->sm90.multiprocessors);
    if (kernel == NULL)
        return GEMMD_ERR_INTERNAL;
    char *space = operand_settle(&plan.a, workspace, &plan.problem.a);
    space = operand_settle(&plan.b, space, &plan.problem.b);
    if (plan.c.way != OPERAND_STAYS) {
        plan.problem.c = space;
        plan.c.job.from = space;
    }
    enum gemmd_error code = GEMMD_OK;
    if (!kernel->whole)
        code = operand_move(context->stream, &plan.a);
    if (code == GEMMD_OK && !kernel->whole)
        code = operand_move(context->stream, &plan.b);
    if (code == GEMMD_OK)
        code = launch_plan(context, kernel, p, &plan);
    return code == GEMMD_OK ? operand_move(context->stream, &plan.c) : code;
}

const struct gemm_kernel gemm_cuda_wgmma = {
    .name = "wgmma",
    .description = "tensor cores of sm_90a fed by the copy engine, tiles chosen by shape",
    .compute_capability = 90,
    .rows_independent = true,
    .any_leading = true, /* what it does not like is moved first */
    .takes = takes,
    .suits = suits,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
