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

/* The number of keys in a KV split of an entry with `keys` keys and `kv_heads` heads of K and V,
 * each with `rows` queries; `width` is the larger of d and dv. The number depends on the entry
 * only, so that the entry has the same bits in any batch. Short entries have short KV splits,
 * because otherwise there would be too few blocks. Long entries have long KV splits, because every
 * KV split writes and reads intermediate sums of all rows. With 8 rows or more, the length is
 * doubled while the entry keeps at least `blocks_min` blocks. Heads of up to 64 columns and more
 * than 8192 keys are an exception: 512 blocks would be slower than more, and each of them would
 * take long. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t
attention_decode_split_keys(uint32_t keys, uint32_t kv_heads, uint32_t rows, uint32_t width,
                            uint32_t blocks_min)
{
    const uint32_t rows_min = 8;
    const uint32_t log_max = width > 64 ? 13 : keys <= 8192 ? 10 : 9;
    uint32_t log = keys <= 2048 ? 7 : keys <= 8192 ? 8 : 9;
    while (rows >= rows_min && log < log_max &&
           (uint64_t)kv_heads * (keys >> (log + 1)) >= blocks_min)
        log++;
    return UINT32_C(1) << log;
}

/* The same for the kernels of decode.cuh: at least 256 blocks, which an H100 computes at once, or
 * 128 from 16 rows on, whose sums take longer to write than more blocks save. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t
attention_decode_kv_split_keys(uint32_t keys, uint32_t kv_heads, uint32_t rows, uint32_t width)
{
    return attention_decode_split_keys(keys, kv_heads, rows, width, rows < 16 ? 256 : 128);
}

/* The most KV splits of an entry with up to `keys` keys, whatever its heads and rows. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t attention_decode_kv_splits_max(uint32_t keys)
{
    const uint32_t split_keys = attention_decode_kv_split_keys(keys, 1, 1, 1);
    const uint32_t own = keys / split_keys + (keys % split_keys != 0);
    /* The KV splits of the longest entry that has the next shorter split: 2048 / 128, 8192 / 256.
     */
    const uint32_t shorter = keys <= 2048 ? 0 : keys <= 8192 ? 16 : 32;
    return own > shorter ? own : shorter;
}

/* The number of heads of K and V on which the length of KV splits depends: all heads of an entry,
 * also where the problem is the part of an attention that one of several devices computes. */
static inline uint32_t attention_decode_kv_heads(const struct attention_problem *p)
{
    return (uint32_t)(p->whole_kv_heads != 0 ? p->whole_kv_heads : p->kv_heads);
}

/* The most KV splits of an entry of a problem. */
static inline uint32_t attention_decode_kv_splits(const struct attention_problem *p)
{
    const uint32_t keys = (uint32_t)p->skv, rows = (uint32_t)(p->sq * (p->heads / p->kv_heads));
    const uint32_t width = (uint32_t)(p->d > p->dv ? p->d : p->dv);
    if (p->lens_q != NULL)
        return attention_decode_kv_splits_max(keys);
    const uint32_t split_keys =
        attention_decode_kv_split_keys(keys, attention_decode_kv_heads(p), rows, width);
    return keys / split_keys + (keys % split_keys != 0);
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
