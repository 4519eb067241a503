/*
 * register_tiled_sm90.h - the tile of register_tiled for devices of compute capability 9.0 only.
 */
#ifndef KERNELS_CUDA_SIMT_REGISTER_TILED_SM90_H
#define KERNELS_CUDA_SIMT_REGISTER_TILED_SM90_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prepares the kernel for the current device. Called once before the first launch. */
cudaError_t sm90_register_tiled_prepare(void);

/* Enqueues a problem of f32 operands with any layout, alignment and strides, epilogue included. The
 * bits are those of every other tile of register_tiled. */
enum gemmd_error sm90_register_tiled_launch(cudaStream_t stream,
                                            const struct gemm_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
