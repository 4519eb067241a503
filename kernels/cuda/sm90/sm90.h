/*
 * sm90.h - the GEMM kernels of sm_90a (Hopper): their tables, the choice of a kernel, and its
 * launch.
 *
 * A kernel here is one configuration of gemm.cuh or of a relative of it (gemm_split.cuh,
 * gemm_swapped.cuh, gemm_fused.cuh, gemm_streamed.cuh, gemm_one_row.cuh, gemm_f8.cuh) for one type.
 * X is op(A), Y is op(B); an operand lies along k if the elements of its rows as stored have
 * neighbouring k.
 *
 * Requirements on a problem, besides its types: device pointers that are multiples of 16 bytes, and
 * leading dimensions and, in batches, strides whose bytes are multiples of 16. m, n and k may have
 * any value from 1 up. i8, f8 and tf32 operands must lie along k: A not transposed and B
 * transposed. For the `swapped` kernels of tf32 neither is transposed. f32 operands with precision
 * full may have any layout, but their parts of bf16 have to be in memory too (parts_launch of
 * move/move.h), unless the kernel is `fused`.
 *
 * The bytes between the end of a row and the start of the next do not change the result. Where rows
 * start at multiples of 128 bytes, the rest of the last 128 bytes of a row may be read. Rows of C
 * may be written up to the next multiple of 16 bytes.
 *
 * f16 operands can have results of bf16 or scales of blocks, for f8 that was converted to f16. The
 * kernels of f8 are for precision f8 only, because the tensor core adds f8 products with only about
 * 13 bits.
 *
 * Every kernel of one type gives the same bits for the same row of A, whatever m is
 * (kernels/experiments/hardware.md has the measurement).
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
    const char *name; /* such as "bf16_128x256_1x2"; NULL ends a table */
    int element;      /* enum sm90::element (wgmma.cuh) */
    /* Rows and columns of C and steps of k in a tile, blocks of a cluster along m and n, warpgroups
     * that multiply (0: streamed, each warp for itself), and buffers of a ring (gemm.cuh). */
    uint32_t tile_m, tile_n, tile_k, cluster_m, cluster_n, consumers, stages;
    bool pingpong;
    uint32_t threads, shared_bytes;
    bool fused;    /* takes f32 operands as they are and makes their parts itself */
    bool swapped;  /* computes the transpose of C: the left operand of the tensor core is B */
    bool takes_c0; /* if not, beta must be 0 */
    /* Whether exactly the columns of a tile are copied if tile_n is no multiple of 64 and Y does
     * not lie along k. If not, half a box more is copied (LEFT_OVER of gemm.cuh). */
    bool half_box;
    bool halves; /* can compute the last rows in half tiles (sm90_tile_rows of grid.h) */
    int scales;  /* enum gemm_scales: the only scales of problems that the kernel takes */
    /* Whether the kernel adds the products of each chunk of k to a sum of its own, and then the
     * sums. Kernels of this kind compute the problems that split_k_chunks (gemm/split_k.h) cuts
     * into several chunks of k, and the other kernels compute the other problems. */
    bool chunks;
    bool split; /* the blocks of a cluster share a tile, each has a chunk of k */
    /* Whether the kernel gives results of 32 bits the bits that separate launches would give, one
     * for each chunk of k, whose results are added in the order of k. The launch's chunk_tiles is
     * the length of a chunk. True if sums are exact, and if the kernel adds the sums of chunks
     * itself. */
    bool adds_chunks;
    /* The device functions. The three indices are 1 or 0: whether sums are promoted (gemm.cuh),
     * whether X lies along k, and whether Y lies along k. NULL: there is no such function. */
    const void *functions[2][2][2];
};

extern const struct sm90_kernel sm90_kernels_bf16[], sm90_kernels_f16[], sm90_kernels_i8[],
    sm90_kernels_tf32[], sm90_kernels_f32[], sm90_kernels_f8[], sm90_kernels_f8_rowcol[],
    sm90_kernels_f8_block[], sm90_kernels_f16_block[], sm90_kernels_i8_rowcol[];

/* What the model behind sm90_choose knows of a GPU. */
struct sm90_card {
    uint32_t multiprocessors;
    double memory_rate; /* the bandwidth of its device memory, by its clock and its width, and */
    double l2_size;     /* the size of its L2: both relative to those of an H100 SXM */
};
/* The card that the model was fitted to; also for decisions that are made before the device is
 * known. */
extern const struct sm90_card sm90_h100_sxm;

/* The properties of a device that a launch needs. */
struct sm90_device {
    void *encode; /* cuTensorMapEncodeTiled; NULL: not opened */
    struct sm90_card card;
};

/* A prepared launch, which any thread can enqueue any number of times. */
struct sm90_launch {
    struct sm90_arguments arguments;
    const void *function;
    uint32_t blocks, cluster, threads, shared_bytes; /* cluster: blocks of a cluster */
};

#ifdef __cplusplus
}
#else

/* Prepares the kernels for the current device. Called before the first launch. Fails with
 * cudaErrorInvalidDevice unless the compute capability is 9.0. */
cudaError_t sm90_device_open(struct sm90_device *device);

/* The table for a type, a precision and a kind of scales; NULL if there is none. f32 has two
 * tables, one for each precision. Problems of f8 with scales of blocks and precision full use the
 * table of f16. */
const struct sm90_kernel *sm90_kernels(enum gemmd_dtype dtype, enum gemm_precision precision,
                                       enum gemm_scales scales);

/* The leading dimension for rows of `elements` elements. TMA reads 128 bytes at a time, and reads
 * twice for a row that does not start at a multiple of 128 bytes. Rows that would become longer by
 * more than a third are padded to 16 bytes only, to save memory. */
uint64_t sm90_leading(uint64_t elements, enum gemmd_dtype dtype);

/* Whether the kernel can compute the problem. Ignores pointers, but those of f32 if it is streamed.
 */
bool sm90_takes(const struct sm90_kernel *kernel, const struct gemm_problem *problem);

/* Whether a kernel of the problem's table takes the problem. */
bool sm90_any_takes(const struct gemm_problem *problem);

/* The estimated time of a kernel that takes the problem, including the decomposition of f32
 * operands (gemm/model.h has the model). Pure; pointers are ignored. */
double sm90_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *problem,
                        const struct sm90_card *card);
/* The kernel with the lowest estimate; NULL if none takes the problem. All kernels give the same
 * bits. Pure; pointers are ignored. */
const struct sm90_kernel *sm90_choose(const struct gemm_problem *problem,
                                      const struct sm90_card *card);
/* The kernel with the lowest estimate among those with `adds_chunks`. */
const struct sm90_kernel *sm90_choose_adding(const struct gemm_problem *problem,
                                             const struct sm90_card *card);

/* The parts of f32 operands in memory: for each problem of the batch three bf16 matrices, one after
 * another, `stride` elements apart. The matrices have the layout of the operands and the alignment
 * of the operands of bf16 problems. */
struct sm90_operand {
    const void *data;
    uint64_t leading, stride; /* elements */
};
struct sm90_parts {
    struct sm90_operand a, b;
};

/* Prepares a launch of a problem that the kernel takes. `parts` is required for f32 operands with
 * precision full unless the kernel is `fused`, and is NULL otherwise. Fails if a pointer is not
 * aligned. */
cudaError_t sm90_prepare(const struct sm90_device *device, const struct sm90_kernel *kernel,
                         const struct gemm_problem *problem, const struct sm90_parts *parts,
                         struct sm90_launch *launch);

/* Sets the arguments about C and all that follows the sums, except for the tensor map of C. */
void sm90_set_epilogue(const struct gemm_problem *problem, struct sm90_arguments *arguments);

/* Enqueues a prepared launch on the stream. */
cudaError_t sm90_enqueue(const struct sm90_launch *launch, cudaStream_t stream);

#endif
#endif
