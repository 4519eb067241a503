#include "tests/bench/cublaslt.h"

#include <string.h>

static cudaDataType_t data_type(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_F64:
        return CUDA_R_64F;
    case GEMMD_F32:
        return CUDA_R_32F;
    case GEMMD_F16:
        return CUDA_R_16F;
    case GEMMD_BF16:
        return CUDA_R_16BF;
    case GEMMD_F8_E4M3:
        return CUDA_R_8F_E4M3;
    case GEMMD_I8:
        return CUDA_R_8I;
    default:
        return CUDA_R_32I;
    }
}

cublasStatus_t lt_open(struct lt *lt)
{
    memset(lt, 0, sizeof *lt);
    if (cudaMalloc(&lt->workspace, LT_WORKSPACE_BYTES) != cudaSuccess) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    return cublasLtCreate(&lt->handle);
}

void lt_close(struct lt *lt)
{
    if (lt->handle) {
        cublasLtDestroy(lt->handle);
    }
    cudaFree(lt->workspace);
    memset(lt, 0, sizeof *lt);
}

#if CUBLAS_VERSION >= 120900
static cublasStatus_t set_pointer(struct lt_plan *plan, cublasLtMatmulDescAttributes_t attribute,
                                  const float *scales)
{
    return cublasLtMatmulDescSetAttribute(plan->operation, attribute, &scales, sizeof scales);
}

/* cuBLASLt's A is our B. */
static cublasStatus_t set_scales(struct lt_plan *plan, const struct gemm_problem *p)
{
    const bool block = p->scales == GEMM_SCALES_BLOCK;
    const cublasLtMatmulMatrixScale_t of_a = block ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                                   : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const cublasLtMatmulMatrixScale_t of_b = block ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                                   : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    cublasStatus_t status = cublasLtMatmulDescSetAttribute(
        plan->operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &of_a, sizeof of_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
                                                &of_b, sizeof of_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_pointer(plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p->b_scale.data);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_pointer(plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p->a_scale.data);
    return status;
}
#else
static cublasStatus_t set_scales(struct lt_plan *plan, const struct gemm_problem *p)
{
    (void)plan, (void)p;
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
#endif

cublasStatus_t lt_plan_create(const struct lt *lt, const struct gemm_problem *problem,
                              struct lt_plan *plan)
{
    const struct gemm_problem *p = problem;
    cublasLtMatmulPreference_t preference = NULL;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    cudaDataType_t scale = CUDA_R_32F;
    memset(plan, 0, sizeof *plan);
    if (p->dtype == GEMMD_I8) {
        compute = CUBLAS_COMPUTE_32I;
        scale = CUDA_R_32I;
        plan->integers = 1;
    } else if (p->dtype == GEMMD_F32) {
        compute = p->precision == GEMM_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                      : CUBLAS_COMPUTE_32F_PEDANTIC;
    }
    /* Row-major C = A B is column-major C' = B' A', each operand seen transposed as it lies. */
    const cublasOperation_t op_a = p->transb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = p->transa ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cudaDataType_t type = data_type(p->dtype);
    const uint64_t workspace = LT_WORKSPACE_BYTES;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->operation, compute, scale);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
                                                sizeof op_a);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
                                                sizeof op_b);
    }
    if (status == CUBLAS_STATUS_SUCCESS && p->scales != GEMM_SCALES_NONE) {
        status = set_scales(plan, p);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutCreate(&plan->a, type, p->transb ? p->k : p->n,
                                            p->transb ? p->n : p->k, (int64_t)p->ldb);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatrixLayoutCreate(&plan->b, type, p->transa ? p->m : p->k,
                                            p->transa ? p->k : p->m, (int64_t)p->lda);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            cublasLtMatrixLayoutCreate(&plan->c, data_type(p->out), p->n, p->m, (int64_t)p->ldc);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulPreferenceCreate(&preference);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(lt->handle, plan->operation, plan->a, plan->b,
                                                plan->c, plan->c, preference, LT_CANDIDATES,
                                                plan->candidates, &plan->count);
    }
    if (preference) {
        cublasLtMatmulPreferenceDestroy(preference);
    }
    if (status == CUBLAS_STATUS_SUCCESS && plan->count == 0) {
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        lt_plan_destroy(plan);
    }
    return status;
}

void lt_plan_destroy(struct lt_plan *plan)
{
    if (plan->a) {
        cublasLtMatrixLayoutDestroy(plan->a);
    }
    if (plan->b) {
        cublasLtMatrixLayoutDestroy(plan->b);
    }
    if (plan->c) {
        cublasLtMatrixLayoutDestroy(plan->c);
    }
    if (plan->operation) {
        cublasLtMatmulDescDestroy(plan->operation);
    }
    memset(plan, 0, sizeof *plan);
}

cublasStatus_t lt_enqueue(const struct lt *lt, const struct lt_plan *plan, int candidate,
                          const void *a, const void *b, void *c, cudaStream_t stream)
{
    const float one = 1, zero = 0;
    const int32_t one_int = 1, zero_int = 0;
    return cublasLtMatmul(
        lt->handle, plan->operation, plan->integers ? (const void *)&one_int : (const void *)&one,
        b, plan->a, a, plan->b, plan->integers ? (const void *)&zero_int : (const void *)&zero, c,
        plan->c, c, plan->c, &plan->candidates[candidate].algo, lt->workspace, LT_WORKSPACE_BYTES,
        stream);
}
