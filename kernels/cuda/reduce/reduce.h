/*
 * reduce.h - the kernels of reductions on CUDA (kernels/reduce.h).
 *
 * Each launch function enqueues on the stream and returns at once. The result is GEMMD_OK, or the
 * error of a launch (cuda_error_code).
 */
#ifndef KERNELS_CUDA_REDUCE_REDUCE_H
#define KERNELS_CUDA_REDUCE_REDUCE_H

#include <cuda_runtime_api.h>

#include "kernels/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues `naive`: one thread for each result. */
enum gemmd_error reduce_naive_launch(cudaStream_t stream, const struct reduce_problem *problem);

/* Enqueues the two launches of `tree`, for results whose elements are contiguous. The partial
 * results go to `workspace`: reduce_tree_blocks(length) for each result, of REDUCE_STATE_BYTES
 * each. */
enum gemmd_error reduce_tree_launch(cudaStream_t stream, const struct reduce_problem *problem,
                                    void *workspace);
static inline uint64_t reduce_tree_blocks(uint64_t length)
{
    return (length + 2047) / 2048;
}
enum { REDUCE_STATE_BYTES = 16 };

/* Enqueues `shuffle` for problems of any kind. A problem that needs a workspace must be the only
 * one. The workspace has a state for each chunk and result, and then a counter of 4 bytes for each
 * row or tile of columns (shuffle.cu). */
enum gemmd_error reduce_shuffle_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count);
/* The thread blocks of a problem, of which at most 2^31 - 1 can be launched, and the bytes of its
 * workspace (0: it needs none). */
uint64_t reduce_shuffle_blocks(const struct reduce_problem *problem);
uint64_t reduce_shuffle_workspace(const struct reduce_problem *problem);

/* In the order in which "auto" tries them (kernels/operation.h), NULL-terminated. */
extern const struct operation_kernel *const reduce_cuda_kernels[];

#ifdef __cplusplus
}
#endif
#endif
