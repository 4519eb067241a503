/*
 * few_rows.h - the kernels for few rows of f8_e4m3 with precision full (gemm_widened.cuh,
 * gemm_widened_shared.cuh).
 *
 * They compute the same bits as the kernels of f16 on widened operands.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_FEW_ROWS_H
#define KERNELS_CUDA_SM90_GEMM_FEW_ROWS_H

#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A design: the columns of a block, the teams of warps that widen B in shared memory, the boxes of
 * 128 steps of k in a stage, and the blocks of a cluster. 0 teams: gemm_widened.cuh, whose blocks
 * have 64 columns, one box a stage and no clusters. */
struct few_rows_design {
    uint32_t columns, teams, boxes, cluster;
};

struct few_rows_kernel {
    const void *function;
    struct few_rows_design design;
    uint32_t rows, shared_bytes, threads;
    bool b_along_k, f32_out;
    uint32_t blocks; /* that share a multiprocessor; 0: any number of blocks */
};
/* Each ended by an entry without a function. */
extern const struct few_rows_kernel few_rows_kernels[], few_rows_shared_kernels[];

#ifdef __cplusplus
}
#else

/* Whether the kernels can compute the problem. Ignores pointers. */
bool few_rows_takes(const struct gemm_problem *problem);
/* Prepares the kernels for the current device. */
cudaError_t few_rows_open(void);
/* Prepares a launch of a problem that few_rows_takes allows. */
cudaError_t few_rows_prepare(const struct sm90_device *device, const struct gemm_problem *problem,
                             struct sm90_launch *launch);
/* The same for one design. Each block prefetches `bytes_ahead` bytes of B while earlier kernels
 * run. */
cudaError_t few_rows_prepare_design(const struct sm90_device *device,
                                    const struct gemm_problem *problem,
                                    const struct few_rows_design *design, uint32_t bytes_ahead,
                                    struct sm90_launch *launch);

#endif
#endif
