/*
 * counted.h - the launches that gemmd-bench-counters makes, in three lists.
 *
 * "patterns" are accesses to shared memory (patterns.h). "rungs" are the kernels of the ladder on
 * square products, f32 and f16, with B as it is and transposed. "tiles" are the tiles that a kernel
 * chooses from, each as a kernel of its own, and those of tile_sides.h.
 */
#ifndef TESTS_BENCH_COUNTERS_COUNTED_H
#define TESTS_BENCH_COUNTERS_COUNTED_H

#include "kernels/cuda/context.h"
#include "kernels/operations.h"
#include "tests/bench/counters/patterns.h"
#include "tests/bench/counters/tile_sides.h"

enum { COUNTED_MAX = 48, PATTERN_REPEATS = 64, PATTERN_BLOCKS_EACH = 8 };

/* A launch. One of `pattern`, `side`, `tile` and `kernel` is not NULL. */
struct counted {
    char name[64];
    const struct pattern *pattern;
    const struct tile_side *side;
    const struct sm90_kernel *tile;
    const struct operation_kernel *kernel;
    struct gemm_problem problem; /* without pointers; not for a pattern */
};

/* The launches of the list for products of n x n x n, on a device of compute capability 9.0; their
 * number, 0 if there is no such list. */
uint32_t counted_list(const char *list, uint32_t n, struct counted counted[COUNTED_MAX]);

/* What the launches of a list share. The caller owns everything. */
struct counted_space {
    cudaStream_t stream;
    struct gemm_context *context; /* on the stream */
    void *a, *b, *c;              /* n x n of f32 each, or more for the sums of the patterns */
    void *workspace;
};

/* Enqueues a launch on the stream. Returns false if that failed. */
bool counted_enqueue(const struct counted *counted, const struct counted_space *space);

/* The instructions of a pattern that access shared memory as the pattern says, over all warps of
 * the launch; 0 for other launches. */
unsigned long long counted_instructions(const struct counted *counted,
                                        const struct counted_space *space);

#endif
