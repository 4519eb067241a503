/*
 * grid.h - what launches of the kernels of sm_90a have in common, whatever they compute.
 */
#ifndef KERNELS_CUDA_SM90_GRID_H
#define KERNELS_CUDA_SM90_GRID_H

#include <gemmd/dtypes.h>

#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of rows of tiles that are processed together, of `rows`, all counted in tiles of a
 * complete cluster. The tiles of the `clusters` that run at once should cover about a square of C,
 * so that they read the fewest lines of X and Y. Pure. */
uint32_t sm90_band_rows(const struct sm90_kernel *kernel, uint32_t clusters, uint64_t rows);

/* The rows of tiles of a launch: `whole` rows of whole tiles, counted in tiles of a complete
 * cluster, and behind them `half` rows of tiles with half as many rows of C. */
struct sm90_tile_rows {
    uint64_t whole, half;
};

/* The rows of tiles of a launch of the kernel, which takes the problem, on a card. There are half
 * tiles if one of them in each multiprocessor, and a second one in those that have one whole tile
 * fewer than others, take the place of the last wave of whole tiles. Not if B is too large to stay
 * in the L2, because the half tiles would read it from device memory again. Pure. */
struct sm90_tile_rows sm90_tile_rows(const struct sm90_kernel *kernel,
                                     const struct gemm_problem *problem,
                                     const struct sm90_card *card);

/* The enum sm90_out of a type of results. Pure. */
uint32_t sm90_out(enum gemmd_dtype out);

/* A kernel and how many blocks of it a launch has. */
struct sm90_grid {
    const void *function;
    uint32_t blocks, cluster, threads, shared_bytes; /* cluster: blocks of a cluster */
};

/* Enqueues a kernel whose only parameter is the struct at `arguments`, which is copied. The kernel
 * may start while the kernel before it on the stream still runs. */
cudaError_t sm90_grid_enqueue(const struct sm90_grid *grid, const void *arguments,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
