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

/* Enqueues `streamed`, on a device of compute capability 9.0, for rows of up to
 * SOFTMAX_STREAMED_MAX elements. A block has at most SOFTMAX_STREAMED_SLICE elements of a row. */
enum { SOFTMAX_STREAMED_SLICE = 8192, SOFTMAX_STREAMED_MAX = 131072 };
enum gemmd_error softmax_streamed_launch(cudaStream_t stream,
                                         const struct softmax_problem *problem);

extern const struct operation_kernel *const softmax_cuda_kernels[];
/* A candidate, which is not in the list, so that only benchmarks and checks run it. Its results are
 * right, but under `compute-sanitizer --tool synccheck` a wait of it does not end when a cluster
 * computes several rows (kernels/experiments/rows.md). */
extern const struct operation_kernel softmax_cuda_streamed;

#ifdef __cplusplus
}
#endif
#endif
