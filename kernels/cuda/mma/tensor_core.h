/*
 * tensor_core.h - the kernels of tensor_core.cuh, and which is chosen.
 *
 * They ask for rows of operands that start at multiples of 16 bytes, and for operands of tf32 and
 * i8 that lie along k; tensor_core.c moves those that don't. The tile is chosen by the shape, and
 * every element is summed by the same instructions in the same order in all of them: results have
 * the same bits.
 */
#ifndef KERNELS_CUDA_MMA_TENSOR_CORE_H
#define KERNELS_CUDA_MMA_TENSOR_CORE_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tensor_core_tile {
    TENSOR_CORE_256X128, /* 128x128 for results of f32, except from i8 */
    TENSOR_CORE_64X64,
};

/* Allows the kernels their shared memory, for the current device; of all types, and of one. */
enum gemmd_error tensor_core_prepare(void);
enum gemmd_error tensor_core_prepare_f16(void);
enum gemmd_error tensor_core_prepare_bf16(void);
enum gemmd_error tensor_core_prepare_tf32(void);
enum gemmd_error tensor_core_prepare_i8(void);

/* Enqueue the whole product of operands of that type; tf32 is f32 that is rounded to it. */
enum gemmd_error tensor_core_launch_f16(cudaStream_t stream, enum tensor_core_tile tile,
                                        const struct gemm_problem *problem);
enum gemmd_error tensor_core_launch_bf16(cudaStream_t stream, enum tensor_core_tile tile,
                                         const struct gemm_problem *problem);
enum gemmd_error tensor_core_launch_tf32(cudaStream_t stream, enum tensor_core_tile tile,
                                         const struct gemm_problem *problem);
enum gemmd_error tensor_core_launch_i8(cudaStream_t stream, enum tensor_core_tile tile,
                                       const struct gemm_problem *problem);

/* Computes a problem that the kernel takes with the given tile, whatever the layout of its
 * operands: `run` of the kernel, without the choice of a tile. */
enum gemmd_error tensor_core_run_tile(struct gemm_context *context,
                                      const struct gemm_problem *problem, void *workspace,
                                      enum tensor_core_tile tile);

#ifdef __cplusplus
}
#endif
#endif
