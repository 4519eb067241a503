/*
 * tile_kernels.h - each tile of register_tiled and of tensor_core as a kernel of its own, so that
 * every tile can be checked and measured. The backend's kernels choose a tile by the problem.
 */
#ifndef TESTS_GPU_TILE_KERNELS_H
#define TESTS_GPU_TILE_KERNELS_H

#include "kernels/operations.h"

/* Named after the kernel and the tile, such as "register_tiled_64x64". The tiles of one kernel
 * follow one another; an entry without a name ends the table. */
extern const struct operation_kernel tile_kernels[];

/* The kernel that a tile belongs to, "register_tiled" or "tensor_core". */
const char *tile_kernel_family(const struct operation_kernel *tile);

#endif
