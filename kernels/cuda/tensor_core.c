/* tensor_core.cuh as one kernel for any problem of f16 and bf16: operands whose rows do not start
 * at multiples of 16 bytes are moved into the workspace first, at the speed of memory. */
#include "kernels/cuda/tensor_core.h"

#include "kernels/cuda/context.h"
#include "kernels/cuda/launch.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, ROW_ELEMENTS = 8 };

static uint64_t tiles_of(const struct gemm_problem *p, uint64_t side)
{
    return (p->m + side - 1) / side * ((p->n + side - 1) / side);
}

enum tensor_core_tile tensor_core_choose(const struct gemm_problem *problem,
                                         uint32_t multiprocessors)
{
    /* Two thirds of the large tiles' speed is all that the small ones reach, on an H100. */
    return tiles_of(problem, 128) * problem->batch >= multiprocessors ? TENSOR_CORE_256X128
                                                                      : TENSOR_CORE_64X64;
}

/* Where an operand of `rows` by `width` as stored goes, if it must; *bytes is 0 if not. */
static bool plan_operand(const struct gemm_problem *p, uint64_t rows, uint64_t width, uint64_t ld,
                         uint64_t stride, struct realign_job *job, uint64_t *bytes)
{
    *job = (struct realign_job){.rows = rows,
                                .width = width,
                                .batch = p->batch,
                                .ld_from = ld,
                                .stride_from = stride,
                                .element_bytes = dtype_size(p->dtype)};
    *bytes = 0;
    if (ld % ROW_ELEMENTS == 0 && (p->batch == 1 || stride % ROW_ELEMENTS == 0))
        return true;
    return size_align(width, ROW_ELEMENTS, &job->ld_to) &&
           size_mul(rows, job->ld_to, &job->stride_to) &&
           size_mul(job->stride_to, p->batch, bytes) &&
           size_mul(*bytes, job->element_bytes, bytes) && size_align(*bytes, ALIGNMENT, bytes);
}

struct plan {
    struct realign_job a, b;
    uint64_t a_bytes, b_bytes; /* of the workspace; 0: the operand stays where it is */
};

static bool plan_make(const struct gemm_problem *p, struct plan *plan)
{
    return plan_operand(p, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->lda, p->stride_a,
                        &plan->a, &plan->a_bytes) &&
           plan_operand(p, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->ldb, p->stride_b,
                        &plan->b, &plan->b_bytes);
}

static bool takes(const struct gemm_problem *p)
{
    return gemm_problem_offered(p) && (p->dtype == GEMMD_F16 || p->dtype == GEMMD_BF16) &&
           tiles_of(p, 64) <= INT32_MAX;
}

static bool workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    struct plan plan;
    return plan_make(p, &plan) && size_add(plan.a_bytes, plan.b_bytes, out);
}

static enum gemmd_error run_tile(struct gemm_context *base, const struct gemm_problem *p,
                                 void *workspace, enum tensor_core_tile tile)
{
    cudaStream_t stream = cuda_context_of(base)->stream;
    struct gemm_problem q = *p;
    struct plan plan;
    enum gemmd_error code = plan_make(p, &plan) ? GEMMD_OK : GEMMD_ERR_INTERNAL;
    if (code == GEMMD_OK && plan.a_bytes > 0) {
        plan.a.from = p->a;
        q.a = plan.a.to = workspace;
        q.lda = plan.a.ld_to;
        q.stride_a = plan.a.stride_to;
        code = realign_launch(stream, &plan.a);
    }
    if (code == GEMMD_OK && plan.b_bytes > 0) {
        plan.b.from = p->b;
        q.b = plan.b.to = (char *)workspace + plan.a_bytes;
        q.ldb = plan.b.ld_to;
        q.stride_b = plan.b.stride_to;
        code = realign_launch(stream, &plan.b);
    }
    if (code != GEMMD_OK)
        return code;
    return p->dtype == GEMMD_F16 ? tensor_core_launch_f16(stream, tile, &q)
                                 : tensor_core_launch_bf16(stream, tile, &q);
}

static enum gemmd_error run(struct gemm_context *base, const struct gemm_problem *problem,
                            void *workspace)
{
    return run_tile(base, problem, workspace,
                    tensor_core_choose(problem, cuda_context_of(base)->multiprocessors));
}

static enum gemmd_error run_256x128(struct gemm_context *base, const struct gemm_problem *problem,
                                    void *workspace)
{
    return run_tile(base, problem, workspace, TENSOR_CORE_256X128);
}

static enum gemmd_error run_128x128(struct gemm_context *base, const struct gemm_problem *problem,
                                    void *workspace)
{
    return run_tile(base, problem, workspace, TENSOR_CORE_128X128);
}

static enum gemmd_error run_64x64(struct gemm_context *base, const struct gemm_problem *problem,
                                  void *workspace)
{
    return run_tile(base, problem, workspace, TENSOR_CORE_64X64);
}

const struct gemm_kernel gemm_cuda_tensor_core = {
    .name = "tensor_core",
    .description = "tensor cores by mma.sync, operands by cp.async; sm_80 and newer",
    .any_leading = true, /* what is not aligned is moved first */
    .takes = takes,
    .workspace_bytes = workspace_bytes,
    .run = run,
};

const struct gemm_kernel tensor_core_kernels[TENSOR_CORE_TILES] = {
    [TENSOR_CORE_256X128] = {.name = "tensor_core_256x128",
                             .description = "one tile of tensor_core",
                             .takes = takes,
                             .workspace_bytes = workspace_bytes,
                             .run = run_256x128},
    [TENSOR_CORE_128X128] = {.name = "tensor_core_128x128",
                             .description = "one tile of tensor_core",
                             .takes = takes,
                             .workspace_bytes = workspace_bytes,
                             .run = run_128x128},
    [TENSOR_CORE_64X64] = {.name = "tensor_core_64x64",
                           .description = "one tile of tensor_core",
                           .takes = takes,
                           .workspace_bytes = workspace_bytes,
                           .run = run_64x64},
};
