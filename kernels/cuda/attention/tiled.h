/*
 * tiled.h - the shapes of the kernel of tiled.cuh, as functions that C can call.
 *
 * All shapes go through the keys in the same tiles and distribute a tile over the lanes of a warp
 * in the same way, so the bits of a row are the same in all of them.
 */
#ifndef KERNELS_CUDA_ATTENTION_TILED_H
#define KERNELS_CUDA_ATTENTION_TILED_H

#include <cuda_runtime_api.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTENTION_TILED_KEYS = 32 }; /* keys in a tile of K and V */

/* The number of rows of Q in a tile. */
enum attention_tiled_rows {
    ATTENTION_TILED_FEW,  /* 32 */
    ATTENTION_TILED_MANY, /* 128 */
    ATTENTION_TILED_ROWS
};

/* Whether a problem has a mask, slopes, sinks, a window to the right or ragged entries. Its kernels
 * have tiles of few rows. */
static inline bool attention_tiled_is_general(const struct attention_problem *p)
{
    return p->mask != NULL || p->slopes != NULL || p->sinks != NULL || p->right_windowed ||
           p->ragged;
}

/* The number of tiles of `tile` rows that share a head of K and V. An entry of a ragged problem has
 * a tile more than its rows fill at most. */
static inline uint64_t attention_tiled_tiles_of_head(uint64_t tile,
                                                     const struct attention_problem *p)
{
    const uint64_t rows = p->heads / p->kv_heads * p->sq;
    return p->ragged ? rows / tile + p->batch : (rows + tile - 1) / tile;
}

/* The shared memory that a block needs. */
uint64_t attention_tiled_bytes(enum attention_tiled_rows rows, uint64_t d, uint64_t dv);

/* Allow the kernels their shared memory, at most `shared_bytes`, on the current device. */
enum gemmd_error attention_tiled_prepare_f32(uint64_t shared_bytes);
enum gemmd_error attention_tiled_prepare_f16(uint64_t shared_bytes);
enum gemmd_error attention_tiled_prepare_bf16(uint64_t shared_bytes);
enum gemmd_error attention_tiled_prepare_group_f32(uint64_t shared_bytes);

/* The number of tiles of `rows` rows that a problem has. */
uint64_t attention_tiled_tiles(enum attention_tiled_rows rows,
                               const struct attention_problem *problem);

/* Enqueues tiles of a problem, with tiles of `rows` rows. A general problem has few rows. */
enum gemmd_error attention_tiled_launch(cudaStream_t stream, enum attention_tiled_rows rows,
                                        const struct attention_problem *problem,
                                        struct operation_range tiles);

/* The same for operands of one type. */
enum gemmd_error attention_tiled_launch_f32(cudaStream_t stream, enum attention_tiled_rows rows,
                                            const struct attention_problem *problem,
                                            struct operation_range tiles);
enum gemmd_error attention_tiled_launch_f16(cudaStream_t stream, enum attention_tiled_rows rows,
                                            const struct attention_problem *problem,
                                            struct operation_range tiles);
enum gemmd_error attention_tiled_launch_bf16(cudaStream_t stream, enum attention_tiled_rows rows,
                                             const struct attention_problem *problem,
                                             struct operation_range tiles);

/* Enqueues a group of f32 without general problems. The tiles of the members start in the order of
 * the list. For other types flash_mma computes all groups. */
enum gemmd_error attention_tiled_launch_group_f32(cudaStream_t stream,
                                                  enum attention_tiled_rows rows,
                                                  const struct attention_member members[],
                                                  uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
