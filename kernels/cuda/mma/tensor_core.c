/*
 * The device kernels of tensor_core.cuh as one struct operation_kernel, which takes any problem of
 * f16, bf16, tf32 and i8. Operands whose rows do not start at multiples of 16 bytes are copied into
 * the workspace first; operands of tf32 and i8 that do not lie along k are transposed into the
 * workspace.
 */
#include "kernels/cuda/mma/tensor_core.h"

#include <stdio.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/move/operand.h"
#include "proto/size.h"

/* The number of tiles of `side` x `side` elements that cover C. */
static uint64_t tensor_core_tiles_of(const struct gemm_problem *p, uint64_t side)
{
    return (p->m + side - 1) / side * ((p->n + side - 1) / side);
}

static enum tensor_core_tile tensor_core_choose(const struct gemm_problem *problem,
                                                uint32_t multiprocessors)
{
    /* On an H100 the small tiles reach at most two thirds of the speed of the large ones. */
    return tensor_core_tiles_of(problem, 128) * problem->batch >= multiprocessors
               ? TENSOR_CORE_256X128
               : TENSOR_CORE_64X64;
}

struct plan {
    /* The problem that is launched. Operands in the workspace have no pointers yet. */
    struct gemm_problem problem;
    struct operand a, b; /* how operands are moved, and their bytes of workspace */
};

static bool wants_along_k(const struct gemm_problem *p)
{
    return p->dtype == GEMMD_F32 || p->dtype == GEMMD_I8;
}

static enum operand_form tensor_core_form_of(const struct gemm_problem *p, bool along_k,
                                             uint64_t ld, uint64_t stride)
{
    if (!along_k && wants_along_k(p))
        return OPERAND_TRANSPOSED;
    return operand_is_aligned(ld, stride, p->batch, p->dtype) ? OPERAND_IN_PLACE
                                                              : OPERAND_REALIGNED;
}

static bool tensor_core_plan_make(const struct gemm_problem *p, struct plan *plan)
{
    *plan = (struct plan){
        .problem = *p,
        .a.form = tensor_core_form_of(p, !p->transa, p->lda, p->stride_a),
        .b.form = tensor_core_form_of(p, p->transb, p->ldb, p->stride_b),
    };
    return operands_plan(p, &plan->problem, &plan->a, &plan->b);
}

static bool takes_types(const struct gemm_problem *p)
{
    switch (p->dtype) {
    case GEMMD_F16:
    case GEMMD_BF16:
    case GEMMD_I8:
        return true;
    default:
        return p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32;
    }
}

static bool tensor_core_takes(const void *of)
{
    const struct gemm_problem *p = of;
    return gemm_problem_unscaled(p) && takes_types(p) && tensor_core_tiles_of(p, 64) <= INT32_MAX;
}

static bool tensor_core_workspace_bytes(const void *of, uint64_t *out)
{
    const struct gemm_problem *p = of;
    struct plan plan;
    return tensor_core_plan_make(p, &plan) && size_add(plan.a.bytes, plan.b.bytes, out);
}

enum gemmd_error tensor_core_prepare(void)
{
    enum gemmd_error code = tensor_core_prepare_f16();
    if (code == GEMMD_OK)
        code = tensor_core_prepare_bf16();
    if (code == GEMMD_OK)
        code = tensor_core_prepare_tf32();
    return code == GEMMD_OK ? tensor_core_prepare_i8() : code;
}

static enum gemmd_error tensor_core_launch(cudaStream_t stream, enum tensor_core_tile tile,
                                           const struct gemm_problem *p)
{
    switch (p->dtype) {
    case GEMMD_F16:
        return tensor_core_launch_f16(stream, tile, p);
    case GEMMD_BF16:
        return tensor_core_launch_bf16(stream, tile, p);
    case GEMMD_F32:
        return tensor_core_launch_tf32(stream, tile, p);
    case GEMMD_I8:
        return tensor_core_launch_i8(stream, tile, p);
    default:
        return GEMMD_ERR_INTERNAL;
    }
}

enum gemmd_error tensor_core_run_tile(struct gemm_context *base, const struct gemm_problem *p,
                                      void *workspace, enum tensor_core_tile tile)
{
    cudaStream_t stream = cuda_context_of(base)->stream;
    struct plan plan;
    if (!tensor_core_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    char *space = operand_settle(&plan.a, workspace, &plan.problem.a);
    (void)operand_settle(&plan.b, space, &plan.problem.b);
    enum gemmd_error code = operand_move(stream, &plan.a);
    if (code == GEMMD_OK)
        code = operand_move(stream, &plan.b);
    return code == GEMMD_OK ? tensor_core_launch(stream, tile, &plan.problem) : code;
}

static enum gemmd_error tensor_core_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *problem = of;
    return tensor_core_run_tile(
        base, problem, workspace,
        tensor_core_choose(problem, cuda_context_of(base)->multiprocessors));
}

static void tensor_core_tile(struct gemm_context *base, const void *of, struct operation_tile *out)
{
    const struct gemm_problem *p = of;
    const bool large =
        tensor_core_choose(p, cuda_context_of(base)->multiprocessors) == TENSOR_CORE_256X128;
    const bool wide_results = p->out == GEMMD_F32 && p->dtype != GEMMD_I8;
    snprintf(out->name, sizeof out->name, "%s",
             !large         ? "64x64"
             : wide_results ? "128x128"
                            : "256x128");
}

const struct operation_kernel gemm_cuda_tensor_core = {
    .name = "tensor_core",
    .description = "tensor cores by mma.sync, operands by cp.async; sm_80 and newer",
    .any_leading = true, /* operands of other layouts are copied first */
    .takes = tensor_core_takes,
    .workspace_bytes = tensor_core_workspace_bytes,
    .launch_flops = 2e13,
    .run = tensor_core_run,
    .tile = tensor_core_tile,
};
