/*
 * ladder.h - `gemmd-bench ladder`: every rung of the ladder on square products, checked and timed,
 * next to the library.
 */
#ifndef TESTS_BENCH_LADDER_H
#define TESTS_BENCH_LADDER_H

#include "client/gemmctl/ladder_table.h"
#include "kernels/operations.h"

struct ladder_options {
    bool cpu;           /* else CUDA */
    bool tiles;         /* each tile of a kernel that has several as a row of its own */
    const char *shapes; /* "1x4096x4096,..." instead of the ladder, f32, all tiles; or NULL */
    const char *out;    /* file for the tables, or NULL */
};

/* One table: which operands, and whose turn it is in each row. */
struct ladder_plan {
    struct ladder table;
    bool transa, transb;
    const struct operation_kernel *kernels[LADDER_ROWS]; /* NULL: the library */
};

/* ladder_cuda.c (ladder_without_cuda.c): on the first GPU. */
struct ladder_cuda;
/* NULL after saying why on standard error. */
struct ladder_cuda *ladder_cuda_open(void);
void ladder_cuda_close(struct ladder_cuda *cuda);
const char *ladder_cuda_device(const struct ladder_cuda *cuda); /* "NVIDIA H100 80GB HBM3" */
/* Clock and power now, for the notes. */
void ladder_cuda_state(const struct ladder_cuda *cuda, FILE *to);

/* Checks and times the kernels, in turns, on a product of the shape's m, n, k, types and
 * transposes; NULL is the best of cuBLASLt's candidates. False, after saying why on standard error,
 * if one is wrong or fails. */
bool ladder_cuda_measure(struct ladder_cuda *cuda, const struct gemm_problem *shape,
                         const struct operation_kernel *const kernels[], uint32_t count,
                         double milliseconds[]);

/* The tiles of the kernels that have several, each as a kernel, up to `max` of those that run on
 * this device; their number. */
uint32_t ladder_cuda_tiles(const struct ladder_cuda *cuda, const struct gemm_problem *shape,
                           const struct operation_kernel *kernels[], uint32_t max);

/* ladder_cpu.c: the same on the CPU; no kernel is NULL. What would take longer than some seconds,
 * by `before`, the times at half the side (0: not known), is left out. */
bool ladder_cpu_measure(const struct gemm_problem *shape,
                        const struct operation_kernel *const kernels[], uint32_t count,
                        const double before[], double milliseconds[], bool too_slow[]);

/* Returns an exit status. */
int bench_ladder(const struct ladder_options *options);

#endif
