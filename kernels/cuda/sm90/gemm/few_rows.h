/*
 * few_rows.h - the kernels for products of up to 64 rows of f8_e4m3 with precision full
 * (gemm_streamed_f8.cuh, and gemm_widened.cuh for the widest products of more than 32 rows).
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
    /* The most rows of a problem, the columns of a block, and the steps of k of a stage. */
    uint32_t rows, columns, stage_k;
    uint32_t shared_bytes, threads;
    uint32_t b_swizzle_bytes; /* of the boxes of B in shared memory; 0: not swizzled */
    uint32_t ahead_bytes;     /* of B that a block prefetches while earlier kernels run */
    bool b_along_k, f32_out;
};
/* In the order of choice. Ended by an entry without a function. */
extern const struct few_rows_kernel few_rows_kernels[];

#ifdef __cplusplus
}
#else

/* Whether the kernels can compute the problem. Ignores pointers. */
bool few_rows_takes(const struct gemm_problem *problem);
/* The kernel for a problem that few_rows_takes allows: the first that can compute the problem,
 * without those of 32 columns if there would be more blocks than multiprocessors. Pure; pointers
 * are ignored. */
const struct few_rows_kernel *few_rows_choose(const struct gemm_problem *problem,
                                              uint32_t multiprocessors);
/* Prepares the kernels for the current device. */
cudaError_t few_rows_open(void);
/* Prepares a launch of a problem that few_rows_takes allows. */
cudaError_t few_rows_prepare(const struct sm90_device *device, const struct gemm_problem *problem,
                             struct sm90_launch *launch);

#endif
#endif
