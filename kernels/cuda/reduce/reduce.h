/*
 * reduce.h - the kernels of reductions on CUDA (kernels/reduce.h).
 */
#ifndef KERNELS_CUDA_REDUCE_REDUCE_H
#define KERNELS_CUDA_REDUCE_REDUCE_H

#include <cuda_runtime_api.h>

#include "kernels/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues one thread for each result. */
enum gemmd_error reduce_naive_launch(cudaStream_t stream, const struct reduce_problem *problem);

/* Enqueues the two launches of `tree`, for contiguous elements. The partial results go to
 * `workspace`: reduce_tree_blocks for each result, of REDUCE_STATE_BYTES. */
enum gemmd_error reduce_tree_launch(cudaStream_t stream, const struct reduce_problem *problem,
                                    void *workspace);
static inline uint64_t reduce_tree_blocks(uint64_t length)
{
    return (length + 2047) / 2048;
}
enum { REDUCE_STATE_BYTES = 16 };

/* Enqueues `shuffle` for problems of any kind that the kernel takes; a problem whose length is
 * divided (reduce_shuffle_chunks > 1) must be the only one. Its workspace has reduce_tree's states,
 * one for each chunk and result, and then a counter of 4 bytes for each REDUCE_SHUFFLE_COUNTED
 * results. */
enum gemmd_error reduce_shuffle_launch(cudaStream_t stream, const struct operation_member members[],
                                       uint32_t count);

/* The number of chunks in which blocks reduce the elements of a result: by the length, and whether
 * the elements are contiguous. */
static inline uint64_t reduce_shuffle_chunks(uint64_t length, bool is_row)
{
    const uint64_t chunk = is_row ? 131072 : 512;
    return (length + chunk - 1) / chunk;
}

extern const struct operation_kernel *const reduce_cuda_kernels[];

#ifdef __cplusplus
}
#endif
#endif
