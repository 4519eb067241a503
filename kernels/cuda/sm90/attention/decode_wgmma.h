/*
 * decode_wgmma.h - `decode` on sm_90a for more than 16 rows: the kernels of decode_wgmma.cuh and
 * their launch.
 *
 * The kernels take f16 and bf16, d and dv up to 128, DECODE_WGMMA_ROWS_MIN to
 * ATTENTION_DECODE_ROWS_MAX rows (the queries of all heads that share a head of K and V), and the
 * strides and pointers that flash_wgmma.h requires. The workspace is that of decode.h.
 */
#ifndef KERNELS_CUDA_SM90_ATTENTION_DECODE_WGMMA_H
#define KERNELS_CUDA_SM90_ATTENTION_DECODE_WGMMA_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "kernels/cuda/attention/arguments.h"
#include "kernels/cuda/attention/decode.h"
#include "kernels/cuda/attention/group.h"
#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DECODE_WGMMA_ROWS_MIN = 17, /* with fewer, the kernels of decode.cuh are as fast or faster */
    DECODE_WGMMA_WIDTH_MAX = 128,
    DECODE_WGMMA_KEYS = 64 /* of a step */
};

/* The number of keys in a KV split of an entry (attention_decode_split_keys). With heads of more
 * than 64 columns, 64 blocks read memory as fast as 128 do, and write half as many sums. */
ATTENTION_DECODE_ANYWHERE static inline uint32_t
decode_wgmma_split_keys(uint32_t keys, uint32_t kv_heads, uint32_t rows, uint32_t width)
{
    return attention_decode_split_keys(keys, kv_heads, rows, width, width > 64 ? 64 : 128);
}

/* The parameters of a launch, for one problem. */
struct decode_wgmma_arguments {
    CUtensorMap k, v;
    struct attention_arguments a;
    uint32_t kv_splits;     /* the most KV splits of an entry */
    uint32_t kv_heads;      /* attention_decode_kv_heads */
    uint32_t rows, columns; /* of the sums of a KV split; columns is a multiple of 4 */
    /* The number of the first KV split and of the first row, counted through all problems. */
    uint32_t first_item, first_row;
    float *sums;    /* [entry, head of K and V, KV split, row, columns] */
    float2 *states; /* [entry, head of K and V, KV split, row]: maximum, total */
};

/* The most problems that fit in a launch's parameters. */
enum {
    DECODE_WGMMA_GROUP =
        (ATTENTION_GROUP_PARAMETER_BYTES - 128) / sizeof(struct decode_wgmma_arguments)
};

/* The parameters of a launch of several problems. */
struct decode_wgmma_group {
    uint32_t count, items, rows; /* KV splits and rows of O of all problems */
    struct decode_wgmma_arguments problems[DECODE_WGMMA_GROUP];
};

/* The parameters of a launch of one problem. */
struct decode_wgmma_single {
    uint32_t items, rows;
    struct decode_wgmma_arguments problem;
};

/* The kernels for heads of up to `width` columns: the first and the second, each for one problem
 * and for a group. */
struct decode_wgmma_kernel {
    uint32_t width, shared_bytes;
    const void *split[2], *join[2];
};

/* For widths of 64 and of 128. */
extern const struct decode_wgmma_kernel decode_wgmma_bf16[2], decode_wgmma_f16[2];

#ifdef __cplusplus
}
#else

/* Whether the kernels take the problem, which `decode` takes. Ignores pointers. */
bool decode_wgmma_takes(const struct attention_problem *problem);

/* Prepares the kernels for the current device. */
cudaError_t decode_wgmma_prepare(void);

/* Enqueues members that have the same type and the same d and dv. The KV splits of the members
 * start in the order of the list. Fails if a pointer is not aligned. */
cudaError_t decode_wgmma_enqueue(const struct sm90_device *device,
                                 const struct attention_member members[], uint32_t count,
                                 cudaStream_t stream);

#endif
#endif
