/*
 * few_rows.h - the kernels for products of up to 64 rows of f8_e4m3 with precision full
 * (gemm_streamed_f8.cuh, and gemm_widened.cuh for the widest products of more than 32 rows).
 *
 * Blocks are launched in clusters of two where their number is even. Neighbouring blocks read the
 * same rows of A and, where B is stored [k, n], two halves of the same 128 bytes of B, or they read
 * the same columns of B.
 *
 * The kernels declared here compute the same bits as the f16 kernels on operands that were
 * converted to f16 first.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_FEW_ROWS_H
#define KERNELS_CUDA_SM90_GEMM_FEW_ROWS_H

#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

struct few_rows_kernel {
    const void *function;
    /* The rows and columns of a block, and the steps of k of a stage. */
    uint32_t rows, columns, stage_k;
    /* The most row blocks of a problem. A kernel that is `narrow` is chosen if the blocks for the
     * most rows are no more than the multiprocessors, and k is at least k_min. */
    uint32_t row_blocks, k_min;
    bool narrow, pair; /* pair: the row blocks are two, and a cluster */
    bool b_along_k, f32_out;
    uint32_t shared_bytes, threads;
    uint32_t b_swizzle_bytes; /* of the boxes of B in shared memory; 0: not swizzled */
};
/* In the order of choice. Ended by an entry without a function. */
extern const struct few_rows_kernel few_rows_kernels[];

#ifdef __cplusplus
}
#else

/* Whether the kernels can compute the problem. Ignores pointers. */
bool few_rows_takes(const struct gemm_problem *problem);
/* The kernel for a problem that few_rows_takes allows: the first that can compute the problem and
 * is not too narrow for it. Pure; pointers are ignored. */
const struct few_rows_kernel *few_rows_choose(const struct gemm_problem *problem,
                                              uint32_t multiprocessors);
/* Prepares the kernels for the current device. */
cudaError_t few_rows_open(void);
/* Prepares a launch of a problem that few_rows_takes allows. */
cudaError_t few_rows_prepare(const struct sm90_device *device, const struct gemm_problem *problem,
                             struct sm90_launch *launch);

#endif
#endif
