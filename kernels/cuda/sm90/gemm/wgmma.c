/*
 * wgmma - the device kernels of this folder (sm90.h) as one struct operation_kernel, which takes
 * any problem of their types.
 *
 * A run has up to three steps, which wgmma_plan_make plans: operands are brought into the workspace
 * in the form that the device kernels require, the product is computed, and the result is brought
 * from the workspace to C.
 *
 *   operands  The device kernels require rows that start at multiples of 16 bytes, operands of i8
 *             along k, and A of tf32 along k. Other operands are copied or transposed into the
 *             workspace. f8 with precision full is converted to f16, which is exact, in the
 *             workspace or, for few rows, by the device kernel itself (few_rows.h). f32 with
 *             precision full is decomposed into three parts, unless the chosen device kernel is
 *             fused and does so itself.
 *   product   One launch. Products with few columns and a large k are computed in chunks of k, in
 *             one launch or in several (split_k.h).
 *   result    A result is written to the workspace first if the device kernel would overwrite bytes
 *             between the rows of C, or if scales follow.
 *
 * Scales are applied by device kernels for scales. Only the scales of rows and columns of f8 with
 * precision full are applied in a launch of their own, to sums in the workspace.
 */
#include "kernels/cuda/context.h"
#include "kernels/cuda/move/operand.h"
#include "kernels/cuda/simt/scaled.h"
#include "kernels/cuda/sm90/gemm/few_rows.h"
#include "kernels/cuda/sm90/gemm/split_k.h"
#include "proto/dtype.h"
#include "proto/size.h"

#include <math.h>
#include <stdio.h>

/* The largest k for f32 in parts. The small products of parts are one chain of the tensor core,
 * which truncates; for a larger k the error would come near that of a chain of FMAs. */
enum { PARTS_K_MAX = 1 << 20 };
/* The least n and the least k for f32 in parts, see wgmma_is_faster. */
enum { PARTS_MIN = 512 };

struct plan {
    /* The problem that is launched. Operands in the workspace have no pointers yet. */
    struct gemm_problem problem;
    struct operand a, b, c; /* how operands and result are moved, and their bytes of workspace */
    struct split_k chunks;  /* split-k with a join, if chunks.chunk > 0 */
    /* Bytes of the sums of f32 in the workspace to which scales of rows and columns are applied
     * after the launch; 0: the kernel applies the scales, if there are any. */
    uint64_t sums_bytes;
    bool few; /* the kernels for few rows compute the problem, with operands of f8 */
};

static bool is_in_parts(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_FULL;
}

/* Whether the tensor core multiplies f8 as it is. With precision f8, products with few columns and
 * a small k are nevertheless computed as with precision full, whatever m is. Small products of
 * several requests share a launch of a kernel that computes so (gemm_is_small), and their bits must
 * not depend on that. Products with scales do not share launches. */
static bool is_f8(const struct gemm_problem *p)
{
    enum { SMALL = 256 };
    return p->dtype == GEMMD_F8_E4M3 && p->precision == GEMM_PRECISION_F8 &&
           (p->n > SMALL || p->k > SMALL || p->scales != GEMM_SCALES_NONE);
}

static bool wants_a_along_k(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_I8 || is_f8(p) || (p->dtype == GEMMD_F32 && !is_in_parts(p));
}

static bool wants_b_along_k(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_I8 || is_f8(p);
}

/* Whether all rows start at multiples of 16 bytes and no matrix of a batch is used twice. */
static bool starts_aligned(uint64_t ld, uint64_t stride, uint64_t batch, enum gemmd_dtype dtype)
{
    return operand_is_aligned(ld, stride, batch, dtype) && (batch == 1 || stride > 0);
}

/* The form that an operand is brought into. `transposed`: the operand lies across k and the device
 * kernel requires it along k. */
static enum operand_form wgmma_form_of(const struct gemm_problem *p, bool transposed, uint64_t ld,
                                       uint64_t stride)
{
    if (p->dtype == GEMMD_F8_E4M3 && !is_f8(p))
        return OPERAND_WIDENED;
    if (is_in_parts(p))
        return OPERAND_IN_PARTS;
    if (transposed)
        return OPERAND_TRANSPOSED;
    return starts_aligned(ld, stride, p->batch, p->dtype) ? OPERAND_IN_PLACE : OPERAND_REALIGNED;
}

/* Plans where the device kernel writes the result. False: a size overflows. */
static bool plan_result(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    /* Kernels write C in units of 16 bytes. */
    if (starts_aligned(p->ldc, p->stride_c, p->batch, p->out) &&
        p->n * dtype_size(p->out) % 16 == 0)
        return true;
    plan->c.form = OPERAND_REALIGNED;
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

/* For f8 with precision full and scales of rows and columns, the problem of the plan becomes that
 * of the sums, without scales and epilogue. False: a size overflows. */
static bool plan_sums(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    if (p->scales != GEMM_SCALES_ROWCOL || p->dtype != GEMMD_F8_E4M3 || is_f8(p))
        return true;
    q->scales = GEMM_SCALES_NONE;
    q->out = GEMMD_F32;
    q->act = GEMM_ACT_NONE;
    q->alpha = 1;
    q->beta = 0;
    q->bias = NULL;
    q->c0 = NULL;
    return operand_place(p->m, p->n, p->batch, GEMMD_F32, &q->ldc, &q->stride_c, &plan->sums_bytes);
}

/* Changes a complete plan to one for the device kernels for few rows, if they can compute the
 * problem. They have no chunks of k. Returns whether the plan was changed. */
static bool plan_few(const struct gemm_problem *p, struct plan *plan)
{
    const struct gemm_problem *wide = &plan->problem;
    struct gemm_problem q = *wide;
    if (p->dtype != GEMMD_F8_E4M3 || is_f8(p) || plan->chunks.chunk > 0 || split_k_chunks(wide) > 1)
        return false;
    q.dtype = p->dtype;
    q.transa = p->transa;
    q.transb = p->transb;
    q.lda = p->lda;
    q.ldb = p->ldb;
    q.stride_a = p->stride_a;
    q.stride_b = p->stride_b;
    if (!few_rows_takes(&q))
        return false;
    plan->few = true;
    plan->problem = q;
    plan->a = plan->b = (struct operand){.form = OPERAND_IN_PLACE};
    return true;
}

/* The estimated time of the fastest device kernel; infinite if none takes the problem. */
static double estimate_us(const struct gemm_problem *p, const struct sm90_card *card)
{
    const struct sm90_kernel *kernel = sm90_choose(p, card);
    return kernel != NULL ? sm90_estimate_us(kernel, p, card) : INFINITY;
}

/* The estimated time of the chunks if each is a product of its own, with the fastest kernel for
 * each. Infinite if there is no kernel for one of them. */
static double apart_us(const struct plan *plan, const struct sm90_card *card)
{
    const struct split_k *split = &plan->chunks;
    double us = split_k_join_us(split, &plan->problem, split->count);
    for (uint64_t i = 0; i < split_k_launches(split, &plan->problem); i++) {
        const struct gemm_problem part = split_k_problem(split, &plan->problem, i, NULL);
        us += estimate_us(&part, card);
    }
    return us;
}

/* Whether a product that could be computed in chunks is as fast without. Sums of i8 that stay i32
 * have the same bits for any chunks, so this choice may depend on m. */
static bool needs_no_chunks(const struct plan *plan)
{
    if (plan->chunks.chunk == 0 || plan->problem.dtype != GEMMD_I8 ||
        plan->problem.out != GEMMD_I32)
        return false;
    const struct gemm_problem all = split_k_one_launch(&plan->chunks, &plan->problem, NULL);
    return estimate_us(&all, &sm90_h100_sxm) <= apart_us(plan, &sm90_h100_sxm);
}

static bool wgmma_plan_make(const struct gemm_problem *p, struct plan *plan)
{
    struct gemm_problem *q = &plan->problem;
    *plan = (struct plan){
        .problem = *p,
        .a.form = wgmma_form_of(p, p->transa && wants_a_along_k(p), p->lda, p->stride_a),
        .b.form = wgmma_form_of(p, !p->transb && wants_b_along_k(p), p->ldb, p->stride_b),
    };
    if (!operands_plan(p, q, &plan->a, &plan->b))
        return false;
    if (p->dtype == GEMMD_F8_E4M3 && !is_f8(p))
        q->dtype = GEMMD_F16;
    if (!plan_sums(p, plan))
        return false;
    if (!is_in_parts(p) && !is_f8(p) && q->scales == GEMM_SCALES_NONE &&
        !split_k_plan(q, &plan->chunks))
        return false;
    if (needs_no_chunks(plan))
        plan->chunks = (struct split_k){0};
    if (plan->chunks.chunk == 0 && plan->sums_bytes == 0 && !plan_result(p, plan))
        return false;
    (void)plan_few(p, plan);
    return true;
}

/* The problem of the plan's first launch. The plan is possible if a kernel takes this problem. */
static struct gemm_problem first_launch(const struct plan *plan)
{
    return plan->chunks.chunk > 0 ? split_k_problem(&plan->chunks, &plan->problem, 0, NULL)
                                  : plan->problem;
}

static bool wgmma_takes(const void *of)
{
    const struct gemm_problem *p = of;
    struct plan plan;
    if (!gemm_problem_offered(p) || (is_in_parts(p) && p->k > PARTS_K_MAX) ||
        !wgmma_plan_make(p, &plan))
        return false;
    const struct gemm_problem first = first_launch(&plan);
    return plan.few || sm90_any_takes(&first);
}

/* Whether wgmma is faster than cuBLAS. Must not depend on m and the batch: the bits of a row do not
 * depend on the other rows. */
static bool wgmma_is_faster(const struct gemm_problem *p)
{
    /* Measured (kernels/experiments, tf32_i8.md and f32.md): for tf32, transposing A costs more
     * time than the kernel saves. For f32 in parts, PARTS_MIN columns and steps of k are needed for
     * the kernel to be faster and to have a smaller error than a chain of multiply-adds on all
     * operands. */
    if (is_in_parts(p))
        return p->n >= PARTS_MIN && p->k >= PARTS_MIN;
    return p->dtype != GEMMD_F32 || !p->transa;
}

static const struct operation_kernel *wgmma_preferred_kernel(const void *problem)
{
    return wgmma_is_faster(problem) ? NULL : &gemm_cuda_cublas;
}

static bool wgmma_workspace_bytes(const void *of, uint64_t *out)
{
    const struct gemm_problem *p = of;
    struct plan plan;
    uint64_t bytes;
    return wgmma_plan_make(p, &plan) && size_add(plan.a.bytes, plan.b.bytes, &bytes) &&
           size_add(bytes, plan.c.bytes, &bytes) && size_add(bytes, plan.sums_bytes, &bytes) &&
           size_add(bytes, plan.chunks.bytes, out);
}

/* Prepares and enqueues one launch. `chunk` is the length of a chunk of k if the kernel adds the
 * chunks of a split-k with a join itself, and 0 otherwise. */
static enum gemmd_error wgmma_launch(struct cuda_context *context, const struct sm90_kernel *kernel,
                                     const struct gemm_problem *problem,
                                     const struct sm90_parts *parts, uint64_t chunk)
{
    struct sm90_launch launch;
    cudaError_t error = sm90_prepare(&context->sm90, kernel, problem, parts, &launch);
    if (chunk > 0)
        launch.arguments.chunk_tiles = (uint32_t)(chunk / kernel->tile_k);
    if (error == cudaSuccess)
        error = sm90_enqueue(&launch, context->stream);
    return cuda_error_code((int)error);
}

/* The problem of the plan's launch, with the operands of `original` in place of their parts. */
static struct gemm_problem with_operands(const struct plan *plan,
                                         const struct gemm_problem *original)
{
    struct gemm_problem problem = plan->problem;
    problem.a = original->a;
    problem.b = original->b;
    problem.lda = original->lda;
    problem.ldb = original->ldb;
    problem.stride_a = original->stride_a;
    problem.stride_b = original->stride_b;
    return problem;
}

/* The kernel for the plan's only launch. Of f32 operands the model sees the layout of the parts.
 * The kernels that read the operands themselves may not take their layout. */
static const struct sm90_kernel *choose_kernel(const struct plan *plan,
                                               const struct gemm_problem *original,
                                               const struct sm90_card *card)
{
    const struct sm90_kernel *kernel = sm90_choose(&plan->problem, card);
    if (kernel == NULL || !is_in_parts(original))
        return kernel;
    const struct gemm_problem problem = with_operands(plan, original);
    return sm90_takes(kernel, &problem) ? kernel : sm90_choose(&problem, card);
}

/* Launches f32 in parts. The parts are where plan->problem says; the kernel also gets the original
 * operands. */
static enum gemmd_error launch_parts(struct cuda_context *context, const struct sm90_kernel *kernel,
                                     const struct gemm_problem *original, const struct plan *plan)
{
    const struct gemm_problem *q = &plan->problem;
    const struct sm90_parts parts = {{q->a, q->lda, q->stride_a}, {q->b, q->ldb, q->stride_b}};
    const struct gemm_problem problem = with_operands(plan, original);
    return wgmma_launch(context, kernel, &problem, &parts, 0);
}

static enum gemmd_error launch_few(struct cuda_context *context, const struct gemm_problem *problem)
{
    struct sm90_launch launch;
    cudaError_t error = few_rows_prepare(&context->sm90, problem, &launch);
    if (error == cudaSuccess)
        error = sm90_enqueue(&launch, context->stream);
    return cuda_error_code((int)error);
}

/* The kernel that computes all chunks in one launch. NULL: separate launches are faster. */
static const struct sm90_kernel *choose_together(const struct plan *plan,
                                                 const struct sm90_card *card)
{
    const struct gemm_problem all = split_k_one_launch(&plan->chunks, &plan->problem, NULL);
    const struct sm90_kernel *kernel = sm90_choose_adding(&all, card);
    if (kernel == NULL)
        return NULL;
    const double us =
        sm90_estimate_us(kernel, &all, card) + split_k_join_us(&plan->chunks, &plan->problem, 1);
    return us <= apart_us(plan, card) ? kernel : NULL;
}

static enum gemmd_error launch_chunks(struct cuda_context *context, const struct plan *plan,
                                      void *sums)
{
    const struct split_k *split = &plan->chunks;
    const struct sm90_card *card = &context->sm90.card;
    const struct sm90_kernel *together = choose_together(plan, card);
    const uint64_t launches = together != NULL ? 1 : split_k_launches(split, &plan->problem);
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t i = 0; i < launches && code == GEMMD_OK; i++) {
        const struct gemm_problem problem = together != NULL
                                                ? split_k_one_launch(split, &plan->problem, sums)
                                                : split_k_problem(split, &plan->problem, i, sums);
        const struct sm90_kernel *kernel =
            together != NULL ? together : sm90_choose(&problem, card);
        code = wgmma_launch(context, kernel, &problem, NULL, together != NULL ? split->chunk : 0);
    }
    return code == GEMMD_OK ? split_k_join(context->stream, split, &plan->problem,
                                           together != NULL ? 1 : split->count, sums)
                            : code;
}

static enum gemmd_error wgmma_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *p = of;
    struct cuda_context *context = cuda_context_of(base);
    struct plan plan;
    if (context->sm90.encode == NULL || !wgmma_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    const bool chunks = plan.chunks.chunk > 0, few = plan.few;
    const struct sm90_kernel *kernel =
        chunks || few ? NULL : choose_kernel(&plan, p, &context->sm90.card);
    if (kernel == NULL && !chunks && !few)
        return GEMMD_ERR_INTERNAL;
    char *space = operand_settle(&plan.a, workspace, &plan.problem.a);
    space = operand_settle(&plan.b, space, &plan.problem.b);
    if (plan.c.form != OPERAND_IN_PLACE) {
        plan.problem.c = space;
        plan.c.job.from = space;
    }
    if (plan.sums_bytes > 0) {
        plan.problem.c = space;
        space += plan.sums_bytes;
    }
    enum gemmd_error code = GEMMD_OK;
    if (chunks || few || !kernel->fused) {
        code = operand_move(context->stream, &plan.a);
        if (code == GEMMD_OK)
            code = operand_move(context->stream, &plan.b);
    }
    if (code != GEMMD_OK)
        return code;
    if (chunks)
        code = launch_chunks(context, &plan, space);
    else if (few)
        code = launch_few(context, &plan.problem);
    else
        code = is_in_parts(p) ? launch_parts(context, kernel, p, &plan)
                              : wgmma_launch(context, kernel, &plan.problem, NULL, 0);
    if (code == GEMMD_OK && plan.sums_bytes > 0)
        return scaled_epilogue_launch(context->stream, p, plan.problem.c, plan.problem.ldc,
                                      plan.problem.stride_c);
    return code == GEMMD_OK ? operand_move(context->stream, &plan.c) : code;
}

/* The kernel and the time of chunks, in one launch or in several. */
static const struct sm90_kernel *chunks_tile(const struct plan *plan, const struct sm90_card *card,
                                             double *us)
{
    const struct sm90_kernel *together = choose_together(plan, card);
    const struct gemm_problem first = first_launch(plan);
    const struct gemm_problem all = split_k_one_launch(&plan->chunks, &plan->problem, NULL);
    *us = together != NULL ? sm90_estimate_us(together, &all, card) +
                                 split_k_join_us(&plan->chunks, &plan->problem, 1)
                           : apart_us(plan, card);
    return together != NULL ? together : sm90_choose(&first, card);
}

static void wgmma_tile(struct gemm_context *base, const void *of, struct operation_tile *out)
{
    const struct sm90_card *card = &cuda_context_of(base)->sm90.card;
    const struct sm90_kernel *kernel;
    struct plan plan;
    if (!wgmma_plan_make(of, &plan))
        return;
    if (plan.few) { /* chosen by rule, not by the model */
        const struct few_rows_kernel *few = few_rows_choose(&plan.problem, card->multiprocessors);
        snprintf(out->name, sizeof out->name, "few_rows_%ux%u", few->rows, few->columns);
        return;
    }
    if (plan.chunks.chunk > 0) {
        kernel = chunks_tile(&plan, card, &out->us);
    } else {
        kernel = choose_kernel(&plan, of, card);
        out->us = kernel != NULL ? sm90_estimate_us(kernel, &plan.problem, card) : 0;
    }
    if (kernel != NULL)
        snprintf(out->name, sizeof out->name, "%s", kernel->name);
}

/* f32 takes six products of parts. Where operands are infinite or NaN, each element is computed
 * again, at 1 to 2 TFLOP/s. */
static double wgmma_launch_factor(const void *problem)
{
    return is_in_parts(problem) ? 5 : 1;
}

const struct operation_kernel gemm_cuda_wgmma = {
    .name = "wgmma",
    .description = "tensor cores of sm_90a fed by the copy engine, tiles chosen by shape",
    .compute_capability = 90,
    .rows_independent = true,
    .any_leading = true, /* operands of other layouts are copied first */
    .takes = wgmma_takes,
    .preferred_kernel = wgmma_preferred_kernel,
    .workspace_bytes = wgmma_workspace_bytes,
    .launch_flops = 2e13,
    .launch_factor = wgmma_launch_factor,
    .run = wgmma_run,
    .tile = wgmma_tile,
};
