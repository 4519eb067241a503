/*
 * decode.h - the kernels of decode.cuh, as functions that C can call, and the sizes of KV splits.
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

/* The number of keys in a KV split of an entry with `keys` keys. The number depends on the length
 * of the entry only, so that the entry has the same bits in any batch. Short entries have short KV
 * splits, because otherwise there would be too few blocks. Long entries have long KV splits,
 * because every KV split writes and reads intermediate sums. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t attention_decode_kv_split_keys(uint32_t keys)
{
    return keys <= 2048 ? 128 : keys <= 8192 ? 256 : 512;
}

/* The most KV splits that an entry with up to `keys` keys can have. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t attention_decode_kv_splits(uint32_t keys)
{
    const uint32_t split_keys = attention_decode_kv_split_keys(keys);
    const uint32_t own = keys / split_keys + (keys % split_keys != 0);
    /* The KV splits of the longest entry that has the next shorter split: 2048 / 128, 8192 / 256.
     */
    const uint32_t shorter = keys <= 2048 ? 0 : keys <= 8192 ? 16 : 32;
    return own > shorter ? own : shorter;
}

/* Allows the kernels their shared memory on the current device. */
enum gemmd_error attention_decode_prepare(void);

/* Enqueues a problem of f16 or bf16. The workspace is aligned to 16 bytes. For each KV split of
 * each row of O it has dv floats, rounded up to a multiple of 4, and two more. */
enum gemmd_error attention_decode_launch(cudaStream_t stream,
                                         const struct attention_problem *problem, void *workspace);

/* Enqueues a group. The tiles of the members start in the order of the list. */
enum gemmd_error attention_decode_launch_group(cudaStream_t stream,
                                               const struct attention_member members[],
                                               uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
