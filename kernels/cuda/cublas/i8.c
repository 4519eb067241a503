#include <stdint.h>

#include "kernels/cuda/cublas/cublas.h"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/move/move.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ALIGNMENT = 16, /* bytes, and elements of the operands */
    ROWS_MIN = 32,  /* cublasLt has no i8 kernels for 16 rows and fewer */
};

/* An operand of cublasLt: `rows` lines of `k` elements. The operand is used in place if its layout
 * fits, and is packed into the workspace otherwise. */
struct operand {
    struct pack_job pack;
    bool packed;
    uint64_t ld, stride; /* of the operand that cublasLt reads */
    uint64_t bytes;      /* of the workspace */
};

struct plan {
    struct operand a, b; /* [m, k] and [n, k] */
    uint64_t m, n, k;    /* padded */
    struct cublas_sums sums;
};

static bool plan_operand(struct operand *o)
{
    const struct pack_job *job = &o->pack;
    o->packed = !job->along_k || job->k != job->padded_k || job->rows != job->padded_rows ||
                job->ld % ALIGNMENT != 0 || (job->batch > 1 && job->stride % ALIGNMENT != 0);
    if (!o->packed) {
        o->ld = job->ld;
        o->stride = job->stride;
        return true;
    }
    o->ld = job->padded_k;
    return size_mul(job->padded_rows, job->padded_k, &o->stride) &&
           size_mul(o->stride, job->batch, &o->bytes) && size_align(o->bytes, 256, &o->bytes);
}

static bool cublas_i8_plan_make(const struct gemm_problem *p, struct plan *plan)
{
    *plan = (struct plan){.m = p->m < ROWS_MIN ? ROWS_MIN : p->m};
    if (!size_align(p->n, ALIGNMENT, &plan->n) || !size_align(p->k, ALIGNMENT, &plan->k))
        return false;
    plan->a.pack = (struct pack_job){.from = p->a,
                                     .rows = p->m,
                                     .k = p->k,
                                     .ld = p->lda,
                                     .stride = p->stride_a,
                                     .batch = p->batch,
                                     .padded_rows = plan->m,
                                     .padded_k = plan->k,
                                     .element_bytes = 1,
                                     .along_k = !p->transa};
    plan->b.pack = (struct pack_job){.from = p->b,
                                     .rows = p->n,
                                     .k = p->k,
                                     .ld = p->ldb,
                                     .stride = p->stride_b,
                                     .batch = p->batch,
                                     .padded_rows = plan->n,
                                     .padded_k = plan->k,
                                     .element_bytes = 1,
                                     .along_k = p->transb};
    return plan_operand(&plan->a) && plan_operand(&plan->b) &&
           cublas_sums_plan(p, plan->m, plan->n, ALIGNMENT, &plan->sums);
}

bool cublas_i8_workspace_bytes(const struct gemm_problem *problem, uint64_t *out)
{
    struct plan plan;
    uint64_t bytes;
    return cublas_i8_plan_make(problem, &plan) && size_add(plan.a.bytes, plan.b.bytes, &bytes) &&
           size_add(bytes, plan.sums.bytes, out);
}

/* A matrix as cublasLt sees it: column-major, `ld` elements from column to column. */
static cublasStatus_t set_layout(cublasLtMatrixLayoutOpaque_t *layout, enum gemmd_dtype dtype,
                                 uint64_t rows, uint64_t columns, uint64_t ld, uint64_t batch,
                                 uint64_t stride)
{
    const int32_t count = (int32_t)batch;
    const int64_t distance = (int64_t)stride;
    cublasStatus_t status =
        cublasLtMatrixLayoutInit(layout, cublas_type(dtype), rows, columns, (int64_t)ld);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(
            layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &distance, sizeof distance);
    return status;
}

static cublasStatus_t set_description(cublasLtMatmulDescOpaque_t *description)
{
    const cublasOperation_t transpose = CUBLAS_OP_T, keep = CUBLAS_OP_N;
    cublasStatus_t status = cublasLtMatmulDescInit(description, CUBLAS_COMPUTE_32I, CUDA_R_32I);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &transpose, sizeof transpose);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &keep,
                                                sizeof keep);
    return status;
}

/* cublasLt must not assume more alignment than the operands have. */
static cublasStatus_t set_preference(cublasLtMatmulPreferenceOpaque_t *preference)
{
    const uint64_t bytes = CUBLAS_WORKSPACE_BYTES;
    const uint32_t alignment = ALIGNMENT;
    const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status = cublasLtMatmulPreferenceInit(preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    for (unsigned i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                      sizeof alignment);
    return status;
}

/* `count` problems of the batch, whose operands and sums begin at a, b and d. */
static cublasStatus_t cublas_i8_multiply(struct cuda_context *context, const struct plan *plan,
                                         const void *a, const void *b, void *d, uint64_t count)
{
    const int32_t alpha = 1, beta = 0;
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t layout_a, layout_b, layout_d;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int candidates = 0;

    cublasStatus_t status = set_description(&description);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            set_layout(&layout_b, GEMMD_I8, plan->k, plan->n, plan->b.ld, count, plan->b.stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            set_layout(&layout_a, GEMMD_I8, plan->k, plan->m, plan->a.ld, count, plan->a.stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_layout(&layout_d, plan->sums.type, plan->n, plan->m, plan->sums.ld, count,
                            plan->sums.stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_preference(&preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(context->blas_lt, &description, &layout_b,
                                                &layout_a, &layout_d, &layout_d, &preference, 1,
                                                &found, &candidates);
    if (status == CUBLAS_STATUS_SUCCESS && candidates == 0)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = found.state;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmul(context->blas_lt, &description, &alpha, b, &layout_b, a, &layout_a,
                                &beta, d, &layout_d, d, &layout_d, &found.algo,
                                context->blas_workspace, CUBLAS_WORKSPACE_BYTES, context->stream);
    return status;
}

enum gemmd_error cublas_i8_run(struct cuda_context *context, const struct gemm_problem *p,
                               void *workspace)
{
    struct plan plan;
    enum gemmd_error code = GEMMD_OK;
    if (!cublas_i8_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;

    char *free_space = workspace;
    const char *a = p->a, *b = p->b;
    if (plan.a.packed) {
        a = plan.a.pack.to = free_space;
        free_space += plan.a.bytes;
        code = pack_launch(context->stream, &plan.a.pack);
    }
    if (code == GEMMD_OK && plan.b.packed) {
        b = plan.b.pack.to = free_space;
        free_space += plan.b.bytes;
        code = pack_launch(context->stream, &plan.b.pack);
    }
    char *d = plan.sums.in_c ? p->c : free_space;
    for (uint64_t i = 0; i < p->batch && code == GEMMD_OK; i += CUBLAS_BATCH_MAX) {
        const uint64_t count = p->batch - i < CUBLAS_BATCH_MAX ? p->batch - i : CUBLAS_BATCH_MAX;
        code = cuda_cublas_code(
            cublas_i8_multiply(context, &plan, a + i * plan.a.stride, b + i * plan.b.stride,
                               d + i * plan.sums.stride * dtype_size(plan.sums.type), count));
    }
    if (code != GEMMD_OK || plan.sums.finished)
        return code;
    return epilogue_launch(context->stream, p, d, plan.sums.ld, plan.sums.stride);
}
