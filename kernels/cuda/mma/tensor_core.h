/*
 * tensor_core.h - the kernels of tensor_core.cuh, as functions that C can call.
 *
 * The kernels require rows of operands that start at multiples of 16 bytes, and operands of tf32
 * and i8 that lie along k; tensor_core.c converts other operands first. The tile is chosen by the
 * shape of the problem. All tiles sum every element by the same instructions in the same order, so
 * results have the same bits.
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

/* Allow the kernels of all types, or of one type, their shared memory on the current device. */
enum gemmd_error tensor_core_prepare(void);
enum gemmd_error tensor_core_prepare_f16(void);
enum gemmd_error tensor_core_prepare_bf16(void);
enum gemmd_error tensor_core_prepare_tf32(void);
enum gemmd_error tensor_core_prepare_i8(void);

/* Enqueue a problem with operands of one type, epilogue included. tf32 is f32 whose operands are
 * rounded to tf32. */
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
