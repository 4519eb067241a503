/*
 * sm90.h - the GEMM kernels of sm_90a: their tables, the choice of a kernel, and its launch.
 *
 * Requirements on a problem, besides its types: device pointers that are multiples of 16 bytes, and
 * leading dimensions and, in batches, strides whose bytes are multiples of 16. m, n and k may have
 * any value from 1 up. i8 and tf32 operands must lie along k: A not transposed and B transposed.
 * For the `swapped` kernels of tf32 neither is transposed. f32 operands with precision full may
 * have any layout, but their parts of bf16 have to be in memory too (parts_launch of move/move.h),
 * unless the kernel is `fused`.
 *
 * The bytes between the end of a row and the start of the next do not change the result. Where rows
 * start at multiples of 128 bytes, the rest of the last 128 bytes of a row may be read. Rows of C
 * may be written up to the next multiple of 16 bytes.
 *
 * f16 operands can have results of bf16, for f8 that was converted to f16. There are no f8 kernels,
 * because the tensor core adds f8 products with only about 13 bits.
 *
 * Every kernel of one type gives the same bits for the same row of A, whatever m is
 * (kernels/experiments/bits.md has the measurement).
 */
#ifndef KERNELS_CUDA_SM90_SM90_H
#define KERNELS_CUDA_SM90_SM90_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/sm90/gemm/arguments.h"

#ifdef __cplusplus
extern "C" {
#else
#include "kernels/gemm.h"
#include "proto/dtype.h"
#endif

/* One tile configuration of one type. */
struct sm90_kernel {
    const char *name; /* "bf16_128x256_2x1"; NULL ends a table */
    int element;      /* enum sm90::element */
    uint32_t tile_m, tile_n, tile_k, cluster_m, cluster_n, consumers, stages;
    bool pingpong;
    uint32_t threads, shared_bytes;
    bool fused;   /* takes f32 operands as they are, and makes their parts itself */
    bool swapped; /* computes the transpose of C: the left operand of the tensor core is B */
    /* Whether sums of 32 bits are the same as those of chunks of k that are added in order, if the
     * launch's chunk_tiles say where they end: exact sums, and kernels that add them so. */
    bool adds_chunks;
    /* By whether sums are promoted, whether X and whether Y lies along k; NULL: there is none. */
    const void *functions[2][2][2];
};

extern const struct sm90_kernel sm90_kernels_bf16[], sm90_kernels_f16[], sm90_kernels_i8[],
    sm90_kernels_tf32[], sm90_kernels_f32[];

/* What a launch needs to know of the device it goes to. */
struct sm90_device {
    void *encode; /* cuTensorMapEncodeTiled; NULL: not opened */
    uint32_t multiprocessors;
};

/* A launch made ready: can be enqueued any number of times, by any thread. */
struct sm90_launch {
    struct sm90_arguments arguments;
    const void *function;
    uint32_t blocks, cluster, threads, shared_bytes; /* cluster: placed next to each other */
};

#ifdef __cplusplus
}
#else

/* For the current device, before the first launch on it. Fails on other than compute capability
 * 9.0. */
cudaError_t sm90_device_open(struct sm90_device *device);

/* The table of a type, or NULL. f32 has two. */
const struct sm90_kernel *sm90_kernels(enum gemmd_dtype dtype, enum gemm_precision precision);

/* A leading dimension that suits a row of so many elements: TMA takes 128 bytes at a
 * time, and a row that starts within them costs it twice; for short rows the memory counts more. */
uint64_t sm90_leading(uint64_t elements, enum gemmd_dtype dtype);

/* Whether the kernel can compute the problem (pointers are not looked at). */
bool sm90_takes(const struct sm90_kernel *kernel, const struct gemm_problem *problem);

/* How long a kernel that takes the problem should need, the splitting of f32 operands included, and
 * the kernel that should need least; NULL if none takes it. Pure: results have the same bits
 * whichever is chosen. Pointers are not looked at. */
double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        uint32_t multiprocessors);
const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem, uint32_t multiprocessors);
/* The same among those with `adds_chunks`. */
const struct sm90_kernel *sm90_choose_adding(const struct gemm_problem *problem,
                                             uint32_t multiprocessors);

/* Where the three parts of f32 operands lie, one after another for each problem: bf16 matrices
 * stored as the operands are, aligned as those of bf16 problems, `stride` from part to part. */
struct sm90_operand {
    const void *data;
    uint64_t leading, stride; /* elements */
};
struct sm90_parts {
    struct sm90_operand a, b;
};

/* Fills in a launch of a problem that the kernel takes; `parts` of f32 operands with precision
 * full, unless the kernel is `fused`, else NULL. Fails if a pointer is not aligned. */
cudaError_t sm90_prepare(const struct sm90_device *device, const struct sm90_kernel *kernel,
                         const struct gemm_problem *problem, const struct sm90_parts *parts,
                         struct sm90_launch *launch);

cudaError_t sm90_enqueue(const struct sm90_launch *launch, cudaStream_t stream);

#endif
#endif
