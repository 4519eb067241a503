#include "kernels/cuda/context.h"

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
