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

/* Enqueues tiles of a problem, with tiles of `rows` rows. A problem with a mask has few rows. */
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

/* Enqueues a group of f32 without masks. The tiles of the members start in the order of the list.
 * For other types flash_mma computes all groups. */
enum gemmd_error attention_tiled_launch_group_f32(cudaStream_t stream,
                                                  enum attention_tiled_rows rows,
                                                  const struct attention_member members[],
                                                  uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
