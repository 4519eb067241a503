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
#include "kernels/cuda/launch.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, MULTIPROCESSORS = 132, PARTS = 3 };

/* The small products of parts are one chain of the tensor core, which cuts off what it adds: beyond
 * this its error would come near that of FMAs. */
enum { SPLIT_K_MAX = 1 << 20 };
enum { SPLIT_MIN = 512 };

/* What happens to an operand on its way into the workspace. */
enum move { STAYS, REALIGNED, WIDENED, TRANSPOSED, SPLIT };

struct operand {
    enum move move;
    struct realign_job job; /* as stored; where it goes is filled in by run */
    uint64_t bytes;         /* of the workspace */
};

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
    const uint64_t bytes = dtype_size(dtype);
    return ld * bytes % 16 == 0 && (batch == 1 || (stride > 0 && stride * bytes % 16 == 0));
}

/* Room for `count` matrices of `lines` by `width` in the workspace. */
static bool place(uint64_t lines, uint64_t width, uint64_t count, enum gemmd_dtype dtype,
                  uint64_t *ld, uint64_t *stride, uint64_t *bytes)
{
    *ld = sm90_leading(width, dtype);
    return size_mul(lines, *ld, stride) && size_mul(*stride, count, bytes) &&
           size_mul(*bytes, dtype_size(dtype), bytes) && size_align(*bytes, ALIGNMENT, bytes);
}

/* The type of what an operand becomes. */
static enum gemmd_dtype moved_type(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F8_E4M3 ? GEMMD_F16 : is_split(p) ? GEMMD_BF16 : p->dtype;
}

/* `turned`: the operand lies across k, and may not. */
static enum move move_of(const struct gemm_problem *p, bool turned, uint64_t ld, uint64_t stride)
{
    if (p->dtype == GEMMD_F8_E4M3)
        return WIDENED;
    if (is_split(p))
        return SPLIT;
    if (turned)
        return TRANSPOSED;
    return starts_aligned(ld, stride, p->batch, p->dtype) ? STAYS : REALIGNED;
}

/* An operand of `lines` lines of `width`, as stored, whose move is known. ld and stride are its own
 * before and those of what it becomes after, and *along_k says how that lies. */
static bool plan_operand(const struct gemm_problem *p, const void *data, uint64_t lines,
                         uint64_t width, bool *along_k, uint64_t *ld, uint64_t *stride,
                         struct operand *o)
{
    if (o->move == STAYS)
        return true;
    o->job = (struct realign_job){.from = data,
                                  .rows = lines,
                                  .width = width,
                                  .batch = p->batch,
                                  .ld_from = *ld,
                                  .stride_from = *stride,
                                  .element_bytes = dtype_size(p->dtype)};
    const bool turned = o->move == TRANSPOSED;
    uint64_t count = p->batch;
    if (!size_mul(count, o->move == SPLIT ? PARTS : 1, &count) ||
        !place(turned ? width : lines, turned ? lines : width, count, moved_type(p), ld, stride,
               &o->bytes))
        return false;
    o->job.ld_to = *ld;
    o->job.stride_to = *stride;
    *along_k |= turned;
    return true;
}

static bool plan_result(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    /* Kernels write whole pieces of 16 bytes. */
    if (starts_aligned(p->ldc, p->stride_c, p->batch, p->out) &&
        p->n * dtype_size(p->out) % 16 == 0)
        return true;
    plan->c.move = REALIGNED;
    plan->c.job = (struct realign_job){.to = p->c,
                                       .rows = p->m,
                                       .width = p->n,
                                       .batch = p->batch,
                                       .ld_to = p->ldc,
                                       .stride_to = p->stride_c,
                                       .element_bytes = dtype_size(p->out)};
    if (!place(p->m, p->n, p->batch, p->out, &q->ldc, &q->stride_c, &plan->c.bytes))
        return false;
    plan->c.job.ld_from = q->ldc;
    plan->c.job.stride_from = q->stride_c;
    return true;
}

static bool plan_make(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    bool a_along_k = !p->transa, b_along_k = p->transb;
    *plan = (struct plan){
        .problem = *p,
        .a.move = move_of(p, !a_along_k && wants_a_along_k(p), p->lda, p->stride_a),
        .b.move = move_of(p, !b_along_k && wants_b_along_k(p), p->ldb, p->stride_b),
    };
    if (!plan_operand(p, p->a, p->transa ? p->k : p->m, p->transa ? p->m : p->k, &a_along_k,
                      &q->lda, &q->stride_a, &plan->a) ||
        !plan_operand(p, p->b, p->transb ? p->n : p->k, p->transb ? p->k : p->n, &b_along_k,
                      &q->ldb, &q->stride_b, &plan->b) ||
        !plan_result(p, plan))
        return false;
    q->transa = !a_along_k;
    q->transb = b_along_k;
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

static enum gemmd_error move_in(cudaStream_t stream, const struct operand *o)
{
    const struct realign_job *job = &o->job;
    const struct widen_job widen = {.from = job->from,
                                    .to = job->to,
                                    .lines = job->rows,
                                    .length = job->width,
                                    .ld = job->ld_from,
                                    .stride = job->stride_from,
                                    .batch = job->batch,
                                    .ld_to = job->ld_to};
    const struct pack_job pack = {.from = job->from,
                                  .to = job->to,
                                  .rows = job->width,
                                  .k = job->rows,
                                  .ld = job->ld_from,
                                  .stride = job->stride_from,
                                  .batch = job->batch,
                                  .padded_rows = job->width,
                                  .padded_k = job->ld_to,
                                  .element_bytes = job->element_bytes};
    switch (o->move) {
    case STAYS:
        return GEMMD_OK;
    case REALIGNED:
        return realign_launch(stream, job);
    case WIDENED:
        return widen_launch(stream, &widen);
    case TRANSPOSED:
        return pack_launch(stream, &pack);
    case SPLIT:
        return split_launch(stream, job);
    }
    return GEMMD_ERR_INTERNAL;
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
    char *space = workspace;
    if (plan.a.move != STAYS)
        plan.problem.a = plan.a.job.to = space;
    space += plan.a.bytes;
    if (plan.b.move != STAYS)
        plan.problem.b = plan.b.job.to = space;
    space += plan.b.bytes;
    if (plan.c.move != STAYS) {
        plan.problem.c = space;
        plan.c.job.from = space;
    }
    enum gemmd_error code = GEMMD_OK;
    if (!kernel->whole)
        code = move_in(context->stream, &plan.a);
    if (code == GEMMD_OK && !kernel->whole)
        code = move_in(context->stream, &plan.b);
    if (code == GEMMD_OK)
        code = launch_plan(context, kernel, p, &plan);
    return code == GEMMD_OK ? move_in(context->stream, &plan.c) : code;
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
