/*
 * cublas - cuBLAS as one kernel for every type of the protocol.
 *
 * This file calls cublasGemmEx, for operands of f64, f32, f16 and bf16; i8.c calls cublasLt.
 *
 * Operands of f8 are converted to f16, which is exact. The tensor cores' own f8 products are added
 * with about 13 bits below the largest one, an error thousands of times that of a chain in f32.
 */
#include "kernels/cuda/cublas/cublas.h"

#include <stdint.h>

#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/move/move.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum gemmd_error cuda_cublas_code(cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return GEMMD_OK;
    if (cuda_error_code(cudaPeekAtLastError()) == GEMMD_ERR_DEVICE_LOST)
        return GEMMD_ERR_DEVICE_LOST;
    switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
        return GEMMD_ERR_OUT_OF_MEMORY;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return GEMMD_ERR_UNSUPPORTED;
    default:
        return GEMMD_ERR_INTERNAL;
    }
}

static cublasComputeType_t compute_type(const struct gemm_problem *p)
{
    if (p->dtype == GEMMD_F64)
        return CUBLAS_COMPUTE_64F;
    if (p->dtype == GEMMD_F32 && p->precision == GEMM_PRECISION_TF32)
        return CUBLAS_COMPUTE_32F_FAST_TF32;
    return CUBLAS_COMPUTE_32F;
}

static const void *offset(const void *start, uint64_t elements, enum gemmd_dtype dtype)
{
    return (const char *)start + elements * dtype_size(dtype);
}

/* Adds the products of `k` elements from `first` on to what is in `to`, or begins with them. */
static cublasStatus_t cublas_multiply(struct cuda_context *context, const struct gemm_problem *p,
                                      const struct cublas_sums *sums, void *to, uint64_t first,
                                      uint64_t k_count)
{
    const cublasOperation_t op_a = p->transa ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = p->transb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t type = cublas_type(p->dtype), type_c = cublas_type(sums->type);
    const int64_t m = (int64_t)p->m, n = (int64_t)p->n, k = (int64_t)k_count;
    const int64_t lda = (int64_t)p->lda, ldb = (int64_t)p->ldb, ldc = (int64_t)sums->ld;
    const double alpha_f64 = sums->alpha, beta_f64 = 0;
    const float alpha_f32 = (float)sums->alpha, beta_f32 = first > 0 ? 1 : 0;
    const bool wide = p->dtype == GEMMD_F64;
    const void *alpha = wide ? (const void *)&alpha_f64 : &alpha_f32;
    const void *beta = wide ? (const void *)&beta_f64 : &beta_f32;
    const void *a = offset(p->a, p->transa ? first * p->lda : first, p->dtype);
    const void *b = offset(p->b, p->transb ? first : first * p->ldb, p->dtype);

    if (p->batch == 1)
        return cublasGemmEx_64(context->blas, op_b, op_a, n, m, k, alpha, b, type, ldb, a, type,
                               lda, beta, to, type_c, ldc, compute_type(p), CUBLAS_GEMM_DEFAULT);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (uint64_t i = 0; i < p->batch && status == CUBLAS_STATUS_SUCCESS; i += CUBLAS_BATCH_MAX) {
        const uint64_t count = p->batch - i < CUBLAS_BATCH_MAX ? p->batch - i : CUBLAS_BATCH_MAX;
        status = cublasGemmStridedBatchedEx_64(
            context->blas, op_b, op_a, n, m, k, alpha, offset(b, i * p->stride_b, p->dtype), type,
            ldb, (long long)p->stride_b, offset(a, i * p->stride_a, p->dtype), type, lda,
            (long long)p->stride_a, beta, (char *)to + i * sums->stride * dtype_size(sums->type),
            type_c, ldc, (long long)sums->stride, (int64_t)count, compute_type(p),
            CUBLAS_GEMM_DEFAULT);
    }
    return status;
}

static enum gemmd_error gemm_ex_run(struct cuda_context *context, const struct gemm_problem *p,
                                    void *workspace)
{
    struct cublas_sums sums;
    if (!cublas_sums_plan(p, p->m, p->n, 1, &sums))
        return GEMMD_ERR_INTERNAL;
    void *to = sums.in_c ? p->c : workspace;
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t first = 0; first < p->k && code == GEMMD_OK; first += sums.k_step) {
        const uint64_t left = p->k - first;
        code = cuda_cublas_code(
            cublas_multiply(context, p, &sums, to, first, left < sums.k_step ? left : sums.k_step));
    }
    if (code != GEMMD_OK || sums.finished)
        return code;
    return epilogue_launch(context->stream, p, to, sums.ld, sums.stride);
}

static bool gemm_ex_workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    struct cublas_sums sums;
    if (!cublas_sums_plan(p, p->m, p->n, 1, &sums))
        return false;
    *out = sums.bytes;
    return true;
}

/* An f8 problem as one of f16. `a_bytes` and `b_bytes` of the workspace hold its operands. */
struct widened {
    struct gemm_problem problem;
    struct widen_job a, b;
    uint64_t a_bytes, b_bytes;
};

static bool widen_operand(struct widen_job *job, uint64_t *bytes)
{
    return size_align(job->length, 8, &job->ld_to) && size_mul(job->lines, job->ld_to, bytes) &&
           size_mul(*bytes, 2 * job->batch, bytes) && size_align(*bytes, 256, bytes);
}

static bool widened_plan(const struct gemm_problem *p, struct widened *w)
{
    *w = (struct widened){
        .problem = *p,
        .a = {.from = p->a,
              .lines = p->transa ? p->k : p->m,
              .length = p->transa ? p->m : p->k,
              .ld = p->lda,
              .stride = p->stride_a,
              .batch = p->batch},
        .b = {.from = p->b,
              .lines = p->transb ? p->n : p->k,
              .length = p->transb ? p->k : p->n,
              .ld = p->ldb,
              .stride = p->stride_b,
              .batch = p->batch},
    };
    w->problem.dtype = GEMMD_F16;
    if (!widen_operand(&w->a, &w->a_bytes) || !widen_operand(&w->b, &w->b_bytes))
        return false;
    w->problem.lda = w->a.ld_to;
    w->problem.ldb = w->b.ld_to;
    w->problem.stride_a = w->a.lines * w->a.ld_to;
    w->problem.stride_b = w->b.lines * w->b.ld_to;
    return true;
}

static bool widened_workspace_bytes(const struct gemm_problem *p, uint64_t *out)
{
    struct widened w;
    uint64_t bytes;
    return widened_plan(p, &w) && gemm_ex_workspace_bytes(&w.problem, &bytes) &&
           size_add(bytes, w.a_bytes, &bytes) && size_add(bytes, w.b_bytes, out);
}

static enum gemmd_error widened_run(struct cuda_context *context, const struct gemm_problem *p,
                                    void *workspace)
{
    struct widened w;
    if (!widened_plan(p, &w))
        return GEMMD_ERR_INTERNAL;
    w.problem.a = w.a.to = workspace;
    w.problem.b = w.b.to = (char *)workspace + w.a_bytes;
    enum gemmd_error code = widen_launch(context->stream, &w.a);
    if (code == GEMMD_OK)
        code = widen_launch(context->stream, &w.b);
    if (code != GEMMD_OK)
        return code;
    return gemm_ex_run(context, &w.problem, (char *)w.b.to + w.b_bytes);
}

static bool cublas_workspace_bytes(const void *of, uint64_t *out)
{
    const struct gemm_problem *p = of;
    if (p->dtype == GEMMD_I8)
        return cublas_i8_workspace_bytes(p, out);
    if (p->dtype == GEMMD_F8_E4M3)
        return widened_workspace_bytes(p, out);
    return gemm_ex_workspace_bytes(p, out);
}

static enum gemmd_error cublas_run(struct gemm_context *base, const void *of, void *workspace)
{
    const struct gemm_problem *p = of;
    struct cuda_context *context = cuda_context_of(base);
    if (p->dtype == GEMMD_I8)
        return cublas_i8_run(context, p, workspace);
    if (p->dtype == GEMMD_F8_E4M3)
        return widened_run(context, p, workspace);
    return gemm_ex_run(context, p, workspace);
}

const struct operation_kernel gemm_cuda_cublas = {
    .name = "cublas",
    .description = "cuBLAS, with what it cannot do fused added after it",
    .takes = gemm_problem_unscaled,
    .workspace_bytes = cublas_workspace_bytes,
    .run = cublas_run,
};
