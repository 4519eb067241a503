/*
 * split_k.h - split-k for products with few columns and a large k: k is computed in chunks, whose
 * sums are added in ascending order.
 *
 * A product of 16 rows, 64 columns and k = 14336 has one tile, which one of 132 multiprocessors
 * computes in 29 microseconds. In chunks of k the product has as many tiles as chunks, and takes 9
 * microseconds.
 *
 * There are two kinds of split-k:
 *
 *   in one launch    For 16-bit types with results of 16 bits, and for tf32. One launch computes up
 *                    to eight chunks and adds their sums (split_k_chunks): in the registers of one
 *                    block, or between the blocks of a cluster (gemm_split.cuh). Both ways give the
 *                    same bits.
 *   with a join      For other types, and for a k that eight chunks would leave too long. Each
 *                    chunk is a product of its own, with sums of 32 bits in the workspace
 *                    (split_k_plan). One more launch, the join, adds the sums and computes the
 *                    epilogue. The k of a chunk of tf32 can be split once more, in one launch.
 *
 * The chunks depend on n, k and the type only, never on m or the batch, so that the bits of a row
 * do not depend on the other rows. (Sums of i8 that stay i32 are exact, so the caller may compute
 * them without chunks.) If m is large enough for many tiles, a kernel that can do so adds the sums
 * of the chunks in registers instead of the workspace, with the same bits. Otherwise the sums are
 * written to memory and read again. The bytes of the sums are up to a quarter of the bytes of A,
 * which is why k is split for few columns only.
 *
 * All functions but split_k_join are pure. Any thread may call them.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_SPLIT_K_H
#define KERNELS_CUDA_SM90_GEMM_SPLIT_K_H

#include <cuda_runtime_api.h>

#include "kernels/backend.h"
#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How k is split. Sizes are in elements. */
struct split_k {
    uint64_t chunk;  /* length of a chunk of k; 0: k is not split */
    uint64_t count;  /* number of chunks; the last may be shorter */
    uint64_t ld;     /* leading dimension of the sums, [count, batch, m, ld] */
    uint64_t stride; /* from one m x n matrix of sums to the next */
    uint64_t bytes;  /* bytes of the sums in the workspace */
};

/* The number of chunks of k that one launch computes and adds: 4 or 8, or 1 if k is not split in
 * one launch. Depends on n, k and the types only. */
uint32_t split_k_chunks(const struct gemm_problem *problem);

/* Plans split-k with a join, for a problem whose type is f16, bf16, i8, or f32 with precision tf32.
 * False: the size of the workspace overflows. */
bool split_k_plan(const struct gemm_problem *problem, struct split_k *split);

/* The number of launches that compute the chunks, and the problem of launch i: several chunks as a
 * batch if the problem has a batch of 1, or one chunk of all matrices. `sums` is the place of the
 * sums in the workspace. */
uint64_t split_k_launches(const struct split_k *split, const struct gemm_problem *problem);
struct gemm_problem split_k_problem(const struct split_k *split, const struct gemm_problem *problem,
                                    uint64_t i, void *sums);

/* The problem of all chunks in one launch, for kernels that add the sums of chunks themselves. The
 * sums take the place of a single chunk. */
struct gemm_problem split_k_one_launch(const struct split_k *split,
                                       const struct gemm_problem *problem, void *sums);

/* The estimated time of split_k_join for `count` chunks on an H100, in microseconds. */
double split_k_join_us(const struct split_k *split, const struct gemm_problem *problem,
                       uint64_t count);

/* Enqueues the join on the stream: adds the sums of `count` chunks, in ascending order of k, and
 * computes the epilogue and C of `problem`. Returns the error of the launch. */
enum gemmd_error split_k_join(cudaStream_t stream, const struct split_k *split,
                              const struct gemm_problem *problem, uint64_t count, const void *sums);

#ifdef __cplusplus
}
#endif
#endif
