/*
 * tile_sides.h - the ladder's `tiled` with tiles of 8, 16 and 32, and with fewer blocks on a
 * multiprocessor than would fit: how much of the kernel's speed is the tile's, and how much is the
 * occupancy's.
 */
#ifndef TESTS_BENCH_COUNTERS_TILE_SIDES_H
#define TESTS_BENCH_COUNTERS_TILE_SIDES_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tile_side {
    const char *name; /* "tiled 16x16, 4 blocks at most"; NULL ends the table */
    uint32_t side;
    /* Bytes of dynamic shared memory that a block reserves and does not use. They bound the blocks
     * on a multiprocessor of 228 KiB. */
    uint32_t reserved_bytes;
};
extern const struct tile_side tile_sides[];

/* Enqueues C = A * B, f32, n x n each, row-major and contiguous. n is a multiple of 32. */
cudaError_t tile_side_enqueue(const struct tile_side *tile, const float *a, const float *b,
                              float *c, uint32_t n, cudaStream_t stream);

/* Enqueues an empty kernel, `counters_marker`, which divides what the profiler lists. */
cudaError_t counters_mark(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
