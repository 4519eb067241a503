/*
 * attention.h - the attention kernels of the CUDA backend.
 *
 * Every launch function enqueues on the stream and returns at once. The result is GEMMD_OK, or the
 * error of the launch (cuda_error_code). Lengths (lens_q, lens_kv) are in device memory, like the
 * operands.
 */
#ifndef KERNELS_CUDA_ATTENTION_ATTENTION_H
#define KERNELS_CUDA_ATTENTION_ATTENTION_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"
#include "kernels/cuda/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the rows of O in `rows`. Rows are counted through batch, heads and queries. */
enum gemmd_error attention_naive_launch(cudaStream_t stream,
                                        const struct attention_problem *problem,
                                        struct operation_range rows);

extern const struct operation_kernel attention_cuda_decode, attention_cuda_wgmma,
    attention_cuda_flash_mma, attention_cuda_tiled;

/* The kernels of the CUDA backend, best first, NULL-terminated (gemm_backend_entry.attention). */
extern const struct operation_kernel *const attention_cuda_kernels[];

/* Prepares the kernels for the current device: allows them their shared memory and allocates what
 * they need. Called once for each context. */
enum gemmd_error attention_cuda_prepare(struct cuda_context *context);

#ifdef __cplusplus
}
#endif
#endif
