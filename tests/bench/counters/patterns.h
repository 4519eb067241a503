/*
 * patterns.h - kernels whose warps access shared memory in one pattern each, for the profiler to
 * count.
 *
 * Shared memory has 32 banks of 4 bytes. A tile is 32 rows of 32 floats, or of more where it is
 * padded. Each warp reads or writes all of a tile, `repeats` times: 32 instructions of 4 bytes a
 * lane, or 8 instructions of 16 bytes a lane.
 */
#ifndef TESTS_BENCH_COUNTERS_PATTERNS_H
#define TESTS_BENCH_COUNTERS_PATTERNS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PATTERN_THREADS = 256 };

struct pattern {
    const char *name;      /* "column, padded, read"; NULL ends the table */
    uint32_t instructions; /* of a warp, for one pass over the tile */
    /* Enqueues the kernel. Each thread leaves a sum of what it has accessed
     * in out[blocks * PATTERN_THREADS], in device memory. */
    cudaError_t (*enqueue)(uint32_t blocks, uint32_t repeats, float *out, cudaStream_t stream);
    /* That sum, exactly, for `repeats` of up to 64. */
    double (*sum)(uint32_t lane, uint32_t repeats);
};
extern const struct pattern patterns[];

#ifdef __cplusplus
}
#endif
#endif
