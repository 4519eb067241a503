/*
 * decode.h - the kernels of decode.cuh: their splits, workspace and launch.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_H
#define KERNELS_CUDA_ATTENTION_DECODE_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ATTENTION_DECODE_ROWS_MAX = 32, /* queries of all heads that share one of K and V */
};

#ifdef __CUDACC__
#define ATTENTION_DECODE_ANYWHERE __host__ __device__
#else
#define ATTENTION_DECODE_ANYWHERE
#endif

/* The keys of a split of an entry that has so many: a function of its own length alone, so that its
 * bits are the same in any company. Short splits for short entries, which else would be too few
 * blocks; long ones for long entries, where what each split writes and reads again counts. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t attention_decode_split_keys(uint32_t keys)
{
    return keys <= 2048 ? 128 : keys <= 8192 ? 256 : 512;
}

/* The splits of an entry of up to so many keys, at most. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t attention_decode_splits(uint32_t keys)
{
    const uint32_t split_keys = attention_decode_split_keys(keys);
    const uint32_t own = keys / split_keys + (keys % split_keys != 0);
    const uint32_t shorter = keys <= 2048 ? 0 : keys <= 8192 ? 16 : 32;
    return own > shorter ? own : shorter;
}

/* Allows them their shared memory, for the current device. */
enum gemmd_error attention_decode_prepare(void);

/* Enqueues a problem of f16 or bf16. The workspace, aligned to 16 bytes, has two floats and dv, to
 * the next multiple of 4, of each split of each row of O. */
enum gemmd_error attention_decode_launch(cudaStream_t stream,
                                         const struct attention_problem *problem, void *workspace);

/* Enqueues a group, in this order. */
enum gemmd_error attention_decode_launch_group(cudaStream_t stream,
                                               const struct attention_member members[],
                                               uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
