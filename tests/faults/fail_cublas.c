/* Makes chosen calls of cuBLAS fail, as fail_cuda.h says. */
#include <cublas_v2.h>
#include <cublasLt.h>

#include "tests/faults/fail_cuda.h"

/* The status with which a call of cuBLAS fails where one of the runtime returns `error`. */
static cublasStatus_t status_of(cudaError_t error)
{
    return error == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
           : error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                                : CUBLAS_STATUS_EXECUTION_FAILED;
}

#define FAIL(name, parameters, arguments) FAIL_EXPANDED(name, parameters, arguments)
#define FAIL_EXPANDED(name, parameters, arguments)                                                 \
    cublasStatus_t __real_##name parameters;                                                       \
    cublasStatus_t __wrap_##name parameters;                                                       \
    cublasStatus_t __wrap_##name parameters                                                        \
    {                                                                                              \
        const cublasStatus_t status =                                                              \
            status_of(cuda_call_fails(#name, __builtin_return_address(0)));                        \
        return status != CUBLAS_STATUS_SUCCESS ? status : __real_##name arguments;                 \
    }

FAIL(cublasCreate, (cublasHandle_t * handle), (handle))
FAIL(cublasSetMathMode, (cublasHandle_t handle, cublasMath_t mode), (handle, mode))
FAIL(cublasSetStream, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
FAIL(cublasSetWorkspace, (cublasHandle_t handle, void *memory, size_t bytes),
     (handle, memory, bytes))
FAIL(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
FAIL(cublasGemmEx_64,
     (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
      int64_t k, const void *alpha, const void *a, cudaDataType type_a, int64_t lda, const void *b,
      cudaDataType type_b, int64_t ldb, const void *beta, void *c, cudaDataType type_c, int64_t ldc,
      cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
     (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc,
      compute, algorithm))
FAIL(cublasGemmStridedBatchedEx_64,
     (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n,
      int64_t k, const void *alpha, const void *a, cudaDataType type_a, int64_t lda,
      long long stride_a, const void *b, cudaDataType type_b, int64_t ldb, long long stride_b,
      const void *beta, void *c, cudaDataType type_c, int64_t ldc, long long stride_c,
      int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t algorithm),
     (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, beta,
      c, type_c, ldc, stride_c, batch, compute, algorithm))
FAIL(cublasLtMatmul,
     (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
      cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
      const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
      cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
      size_t bytes, cudaStream_t stream),
     (handle, description, alpha, a, layout_a, b, layout_b, beta, c, layout_c, d, layout_d,
      algorithm, workspace, bytes, stream))
