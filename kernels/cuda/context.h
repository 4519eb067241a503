/*
 * context.h - the context that CUDA kernels run in, and the GEMM kernels of the CUDA backend.
 *
 * A context belongs to one stream, and is used by one thread at a time.
 */
#ifndef KERNELS_CUDA_CONTEXT_H
#define KERNELS_CUDA_CONTEXT_H

#include <cublas_v2.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/backend.h"
#include "kernels/cuda/sm90/conv/sm90_conv.h"
#include "kernels/cuda/sm90/sm90.h"
#include "kernels/cuda_error.h"
#include "proto/size.h"

struct grouped_space;

/* The size of the workspace that cuBLAS gets. The size is the same on every stream, because the
 * algorithm that cuBLAS chooses, and so the last bits of a result, depend on it. */
enum { CUBLAS_WORKSPACE_BYTES = 32 << 20 };

struct cuda_context {
    struct gemm_context base;
    cudaStream_t stream; /* owned by the caller */
    uint32_t multiprocessors;
    uint32_t shared_bytes; /* the most shared memory that a block can have */
    cublasHandle_t blas;
    cublasLtHandle_t blas_lt;
    void *blas_workspace;          /* CUBLAS_WORKSPACE_BYTES, shared by both handles */
    struct grouped_space *grouped; /* the lists of the grouped kernels */
    /* Open on devices of compute capability 9.0 only. */
    struct sm90_device sm90;
    struct sm90_conv_device sm90_conv;
    uint32_t *attention_next; /* flash_wgmma's counter of tiles, in device memory; zero between
                                 launches */
};

/* Whether one * other blocks fit in a grid, which has at most 2^31 - 1 blocks in x. */
static inline bool cuda_grid_fits(uint64_t one, uint64_t other)
{
    uint64_t blocks;
    return size_mul(one, other, &blocks) && blocks <= INT32_MAX;
}

/* The kernels that backend.c lists. */
extern const struct operation_kernel gemm_cuda_wgmma, gemm_cuda_cublas, gemm_cuda_grouped,
    gemm_cuda_register_tiled, gemm_cuda_tensor_core, gemm_cuda_double_buffered,
    gemm_cuda_tiled_padded, gemm_cuda_tiled, gemm_cuda_naive, gemm_cuda_scaled, gemm_cuda_packed;

static inline struct cuda_context *cuda_context_of(struct gemm_context *context)
{
    return (struct cuda_context *)context;
}

/* The error code for the status of a cuBLAS call. Returns GEMMD_ERR_DEVICE_LOST if the call failed
 * because the device is lost. */
enum gemmd_error cuda_cublas_code(cublasStatus_t status);

#endif
