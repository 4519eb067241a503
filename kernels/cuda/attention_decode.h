/*
 * attention_decode.h - the kernels of attention_decode.cu: their workspace and their launch.
 */
#ifndef KERNELS_CUDA_ATTENTION_DECODE_H
#define KERNELS_CUDA_ATTENTION_DECODE_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ATTENTION_DECODE_SPLIT_KEYS = 256,
    ATTENTION_DECODE_ROWS_MAX = 32, /* queries of all heads that share one of K and V */
};

/* Allows them their shared memory, for the current device. */
enum gemmd_error attention_decode_prepare(void);

/* Enqueues a problem of f16 or bf16. The workspace has, of each split of each row of O, first two
 * floats and then dv. */
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
