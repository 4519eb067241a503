/*
 * split_k.h - deep products with few columns: k in chunks, whose sums are added in order.
 *
 * A product of 16 rows, 64 columns and 14336 of k has one tile, which one multiprocessor of 132
 * computes in 29 microseconds. In chunks of k it has as many tiles as chunks, and takes 9. Each
 * chunk is a product of its own to sums of 32 bits in the workspace; one more launch adds them, in
 * ascending order, and does what follows the sum.
 *
 * Where k is cut follows from n, k and the type alone, never from m or the batch: rows keep their
 * bits in any company. (Sums of i8 that stay i32 are exact, so the caller may leave them whole.)
 * Where m alone makes tiles enough, the chunks' sums of a tile are added in registers instead, by
 * kernels that can; the bits are the same. Other kernels pay for the sums' way through memory, up
 * to a quarter of the bytes of A, which is why k is cut for few columns only.
 *
 * Pure but for split_k_join.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_SPLIT_K_H
#define KERNELS_CUDA_SM90_GEMM_SPLIT_K_H

#include <cuda_runtime_api.h>

#include "kernels/backend.h"
#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements. */
struct split_k {
    uint64_t chunk;  /* of k; 0: the product is not split */
    uint64_t count;  /* of chunks; the last may be shorter */
    uint64_t ld;     /* of sums, [count, batch, m, ld]: from row to row */
    uint64_t stride; /* from matrix to matrix */
    uint64_t bytes;  /* that sums take in the workspace */
};

/* How a problem is split whose type is f16, bf16, i8, or f32 with precision tf32. False: the
 * workspace overflows. */
bool split_k_plan(const struct gemm_problem *problem, struct split_k *split);

/* How many launches compute the chunks, and the problem of the i-th: some chunks of the only matrix
 * as a batch, or one chunk of all matrices. `sums` is the workspace's. */
uint64_t split_k_launches(const struct split_k *split, const struct gemm_problem *problem);
struct gemm_problem split_k_part(const struct split_k *split, const struct gemm_problem *problem,
                                 uint64_t i, void *sums);

/* The problem of all chunks in one launch, for kernels that add them; its sums are a single chunk's
 * place. */
struct gemm_problem split_k_one_launch(const struct split_k *split,
                                       const struct gemm_problem *problem, void *sums);

/* How long split_k_join needs for so many chunks, on an H100. */
double split_k_join_us(const struct split_k *split, const struct gemm_problem *problem,
                       uint64_t count);

/* C from the sums of `count` chunks; enqueued on the stream. */
enum gemmd_error split_k_join(cudaStream_t stream, const struct split_k *split,
                              const struct gemm_problem *problem, uint64_t count, const void *sums);

#ifdef __cplusplus
}
#endif
#endif
