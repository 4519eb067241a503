/*
 * flash_mma.h - the kernels of flash_mma.cu, as functions that C can call.
 */
#ifndef KERNELS_CUDA_ATTENTION_FLASH_MMA_H
#define KERNELS_CUDA_ATTENTION_FLASH_MMA_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a problem has ragged entries, an offset, a window to the right, slopes or sinks, for
 * which there are kernels of their own. */
static inline bool attention_flash_mma_is_general(const struct attention_problem *p)
{
    return p->ragged || p->has_offset || p->right_windowed || p->slopes != NULL || p->sinks != NULL;
}

/* Allows the kernels their shared memory on the current device. */
enum gemmd_error attention_flash_mma_prepare(void);

/* The number of tiles that a problem of f16 or bf16 has. */
uint64_t attention_flash_mma_tiles(const struct attention_problem *problem);

/* The queries and the keys of a tile of a problem of f16 or bf16. */
void attention_flash_mma_tile(const struct attention_problem *problem, uint32_t *queries,
                              uint32_t *keys);

/* Enqueues tiles of a problem of f16 or bf16. */
enum gemmd_error attention_flash_mma_launch(cudaStream_t stream,
                                            const struct attention_problem *problem,
                                            struct operation_range tiles);

/* Enqueues a group of plain problems. The tiles of the members start in the order of the list.
 * Attentions with heads of 65 to 128 columns are enqueued one by one. */
enum gemmd_error attention_flash_mma_launch_group(cudaStream_t stream,
                                                  const struct attention_member members[],
                                                  uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
