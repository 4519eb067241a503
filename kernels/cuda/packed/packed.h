/*
 * packed.h - the kernels for products with packed weights (proto/packed.h), enqueued for one
 * problem.
 *
 * The sum of an element has the same order in all of these kernels, which depends on k and n alone.
 * k is divided into units of 128 steps, and these into slices. In a slice, the products of each 128
 * steps, or of each 32 steps if groups are shorter than 128, are one chain of tensor core
 * instructions. These sums are multiplied by the scale of their group and added in f32, in the
 * order of k. Weights of e2m1 are multiplied by their scales in A's type instead, where that is
 * exact, and have chains of 128 steps: A of bf16, and A of f16 with scales of e4m3. The sums of the
 * slices are added in the order of k.
 */
#ifndef KERNELS_CUDA_PACKED_PACKED_H
#define KERNELS_CUDA_PACKED_PACKED_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PACKED_UNIT_STEPS = 128, /* steps of k that kernels copy and multiply at a time */
    PACKED_SLICES_MAX = 8,
    PACKED_MANY_ROWS = 128, /* of a tile of the kernel for many rows */
    PACKED_TILE_COLUMNS = 128
};

/* The units of k. */
static inline unsigned packed_units(const struct packed_layout *layout)
{
    return (unsigned)((layout->k + PACKED_UNIT_STEPS - 1) / PACKED_UNIT_STEPS);
}

/* The number of slices. On an H200 a product with few rows is fastest if it has about 228 blocks,
 * or twice its tiles of columns (kernels/experiments/packed.md). */
static inline unsigned packed_slices(const struct packed_layout *layout)
{
    const uint64_t tiles = (layout->n + PACKED_TILE_COLUMNS - 1) / PACKED_TILE_COLUMNS;
    const unsigned most = packed_units(layout) < PACKED_SLICES_MAX ? packed_units(layout)
                                                                   : (unsigned)PACKED_SLICES_MAX;
    const unsigned wanted = tiles > 114 ? 2 : (unsigned)(228 / tiles);
    return wanted < most ? wanted : most;
}

/* The number of units in each slice but the last, which may have fewer or none. */
static inline unsigned packed_slice_units(const struct packed_layout *layout, unsigned slices)
{
    return (packed_units(layout) + slices - 1) / slices;
}

/* Set how much shared memory the kernels may have, on the current device. */
enum gemmd_error packed_prepare(void);
cudaError_t packed_sm90_prepare(void);
cudaError_t packed_many_prepare(void);

/* On any GPU since sm_80, and on Hopper. */
enum gemmd_error packed_launch(cudaStream_t stream, const struct gemm_problem *problem);
enum gemmd_error packed_sm90_launch(cudaStream_t stream, const struct gemm_problem *problem);

/* On Hopper, for many rows. `rows` is A with 128-byte swizzle in boxes of 64 steps of k and
 * PACKED_MANY_ROWS rows, so A is not transposed. */
enum gemmd_error packed_many_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                    const CUtensorMap *rows, uint32_t multiprocessors);

#ifdef __cplusplus
}
#endif
#endif
