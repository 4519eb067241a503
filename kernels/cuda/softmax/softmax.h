/*
 * softmax.h - the kernels of the operation `softmax` on CUDA (kernels/softmax.h).
 *
 * Each launch function enqueues on the stream and returns at once. The result is GEMMD_OK, or the
 * error of a launch (cuda_error_code).
 */
#ifndef KERNELS_CUDA_SOFTMAX_SOFTMAX_H
#define KERNELS_CUDA_SOFTMAX_SOFTMAX_H

#include <cuda_runtime_api.h>

#include "kernels/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues `naive`: one thread for each row. */
enum gemmd_error softmax_naive_launch(cudaStream_t stream, const struct softmax_problem *problem);
/* Enqueues the two launches of `tree`. The workspace has the maximum and the sum of each row. */
enum gemmd_error softmax_tree_launch(cudaStream_t stream, const struct softmax_problem *problem,
                                     float *workspace);
/* Enqueues `online`, for problems of any kind that the kernel takes. */
enum gemmd_error softmax_online_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count);

/* Enqueues `clustered`, on a device of compute capability 9.0, for rows of more than one part of
 * SOFTMAX_CLUSTERED_PART_BYTES bytes and at most 2 * SOFTMAX_CLUSTERED_BLOCKS parts, or half as
 * many if results are wider than elements. A block has one part, or two if results are not wider.
 */
enum { SOFTMAX_CLUSTERED_PART_BYTES = 32768, SOFTMAX_CLUSTERED_BLOCKS = 8 };
enum gemmd_error softmax_clustered_launch(cudaStream_t stream,
                                          const struct softmax_problem *problem);

/* In the order in which "auto" tries them (kernels/operation.h), NULL-terminated. */
extern const struct operation_kernel *const softmax_cuda_kernels[];

#ifdef __cplusplus
}
#endif
#endif
