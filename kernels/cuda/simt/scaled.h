/*
 * scaled.h - products of operands with scales on CUDA cores, and scales as an epilogue of their
 * own.
 */
#ifndef KERNELS_CUDA_SIMT_SCALED_H
#define KERNELS_CUDA_SIMT_SCALED_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the product of a problem with scales. Any layout of the operands. */
enum gemmd_error scaled_launch(cudaStream_t stream, const struct gemm_problem *problem);

/* Enqueues what follows the sums of a problem with scales of rows and columns: multiplies sums of
 * f32 by the scales, and computes the epilogue. `sums` is [m, n] for each problem of the batch;
 * rows are `ld` elements apart and problems `stride` elements. */
enum gemmd_error scaled_epilogue_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                        const float *sums, uint64_t ld, uint64_t stride);

#ifdef __cplusplus
}
#endif
#endif
