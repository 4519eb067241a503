/*
 * softmax.h - the kernels of the operation `softmax` on CUDA (kernels/softmax.h).
 */
#ifndef KERNELS_CUDA_SOFTMAX_SOFTMAX_H
#define KERNELS_CUDA_SOFTMAX_SOFTMAX_H

#include <cuda_runtime_api.h>

#include "kernels/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues one thread for each row. */
enum gemmd_error softmax_naive_launch(cudaStream_t stream, const struct softmax_problem *problem);
/* Enqueues the two launches of `tree`. The workspace has the maximum and the sum of each row. */
enum gemmd_error softmax_tree_launch(cudaStream_t stream, const struct softmax_problem *problem,
                                     float *workspace);
/* Enqueues `online`, for problems of any kind that the kernel takes. */
enum gemmd_error softmax_online_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count);

/* The longest row that 512 threads keep in registers, 32 elements each, and the most blocks of a
 * cluster. */
enum { SOFTMAX_REGISTER_LENGTH = 512 * 32, SOFTMAX_CLUSTER_MAX = 8 };
/* Enqueues `cluster`: rows of up to SOFTMAX_CLUSTER_MAX times that length, each by a cluster of
 * blocks. Hopper only (sm90/softmax/cluster.cu). */
enum gemmd_error softmax_cluster_launch(cudaStream_t stream, const struct softmax_problem *problem);

extern const struct operation_kernel *const softmax_cuda_kernels[];

#ifdef __cplusplus
}
#endif
#endif
