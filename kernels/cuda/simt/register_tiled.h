/*
 * register_tiled.h - the tiles of register_tiled, and the choice among them.
 *
 * Every element of C is one chain of fused multiply-adds in the order of k in all tiles, so all
 * tiles give the same bits.
 */
#ifndef KERNELS_CUDA_SIMT_REGISTER_TILED_H
#define KERNELS_CUDA_SIMT_REGISTER_TILED_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum register_tile {
    REGISTER_TILE_256X128,
    REGISTER_TILE_128X128,
    REGISTER_TILE_128X64,
    REGISTER_TILE_64X64,
    REGISTER_TILE_32X32,
    REGISTER_TILE_16X32,
    REGISTER_TILE_128X256, /* register_tiled_sm90.cu, on compute capability 9.0 only */
    REGISTER_TILES
};

struct register_tile_shape {
    const char *name; /* "256x128" */
    uint32_t rows, columns;
};
extern const struct register_tile_shape register_tile_shapes[REGISTER_TILES];

/* The tile with the lowest estimated time on a device of `multiprocessors` multiprocessors. `sm90`
 * says whether the device can run code of sm_90a. A pure function of the problem's shape. */
enum register_tile register_tile_choose(const struct gemm_problem *problem,
                                        uint32_t multiprocessors, bool sm90);

/* Enqueues a problem of f32 operands with the given tile, epilogue included. register_tiled_prepare
 * must have been called once for the current device, and for REGISTER_TILE_128X256
 * sm90_register_tiled_prepare. */
enum gemmd_error register_tiled_prepare(void);
enum gemmd_error register_tiled_launch(cudaStream_t stream, enum register_tile tile,
                                       const struct gemm_problem *problem);

/* ---- register_tiled_sm90.cu: REGISTER_TILE_128X256, for devices of compute capability 9.0 only.
 * register_tiled_launch calls the launch. ---- */

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
