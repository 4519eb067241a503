/*
 * ladder.h - the launches of the ladder's kernels, as functions that C can call.
 *
 * Each function enqueues a whole product, epilogue included, on the stream and returns at once. The
 * result is GEMMD_OK, or the error of the launch (cuda_error_code). Indices have 64 bits, and a
 * kernel loops over sizes beyond a grid's limits.
 */
#ifndef KERNELS_CUDA_LADDER_LADDER_H
#define KERNELS_CUDA_LADDER_LADDER_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operands of f64, f32, f16 and bf16. */
enum gemmd_error naive_launch(cudaStream_t stream, const struct gemm_problem *problem);
enum gemmd_error tiled_launch(cudaStream_t stream, const struct gemm_problem *problem);

/* Operands of f32. */
enum gemmd_error tiled_padded_launch(cudaStream_t stream, const struct gemm_problem *problem);
enum gemmd_error double_buffered_launch(cudaStream_t stream, const struct gemm_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
