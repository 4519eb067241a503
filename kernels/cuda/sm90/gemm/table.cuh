/*
 * table.cuh - the rows of the tables of kernels: configurations of gemm.cuh and their names.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_TABLE_CUH
#define KERNELS_CUDA_SM90_GEMM_TABLE_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/gemm_split.cuh"
#include "kernels/cuda/sm90/gemm/gemm_swapped.cuh"
#include "kernels/cuda/sm90/sm90.h"

namespace sm90
{

/* Which kernels of a configuration are compiled, by how they compute sums; a set of bits. Kernels
 * of 8-bit types and tf32 are compiled for operands along k only. CHAINS: one chain. PROMOTED:
 * chains that are added in f32, for f32 results of 16-bit types. SWAPPED: one chain of tf32 with
 * swapped operands, for a Y that lies along columns. CHUNKS: a chain for each chunk of k, which one
 * block adds. SPLIT: the same, and the blocks of a cluster share the chunks (gemm_split.cuh). */
enum sums {
    NEITHER,
    CHAINS,
    PROMOTED,
    BOTH,
    SWAPPED,
    CHUNKS = 8,
    SPLIT = 16,
    SWAPPED_CHUNKS = SWAPPED | CHUNKS,
    SWAPPED_SPLIT = SWAPPED | SPLIT
};

/* The device function of configuration C. SPLITS: the blocks of a cluster share the chunks of k. */
template <class C, bool SPLITS> constexpr const void *function()
{
    if constexpr (SPLITS) {
        return reinterpret_cast<const void *>(&sm90_gemm_split<C>);
    } else if constexpr (C::SWAPPED) {
        return reinterpret_cast<const void *>(&sm90_gemm_swapped<C>);
    } else {
        return reinterpret_cast<const void *>(&sm90_gemm<C>);
    }
}

/* Sets lies[x][y] to the function for operands that lie so: x and y are whether X and Y lie along
 * k. Operands across k have 16-bit types, and tiles whose boxes are 128 bytes, 64 elements, wide.
 * The template parameters are those of config (gemm.cuh). */
template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN, order ORDER,
          bool SPLITS>
void functions(const void *(&lies)[2][2])
{
    constexpr bool mn = element_bytes<E> == 2;
    constexpr bool x_mn = mn && (M / CN) % 64 == 0;
    constexpr bool y_mn = mn && ((N / CM) % 64 == 0 || (N % 64 == 32 && CM * CN == 1));
    lies[1][1] = function<config<E, M, N, CONSUMERS, S, CM, CN, ORDER, true, true>, SPLITS>();
    if constexpr (x_mn) {
        lies[0][1] = function<config<E, M, N, CONSUMERS, S, CM, CN, ORDER, false, true>, SPLITS>();
    }
    if constexpr (y_mn) {
        lies[1][0] = function<config<E, M, N, CONSUMERS, S, CM, CN, ORDER, true, false>, SPLITS>();
    }
    if constexpr (x_mn && y_mn) {
        lies[0][0] = function<config<E, M, N, CONSUMERS, S, CM, CN, ORDER, false, false>, SPLITS>();
    }
}

/* The members of a row that follow from the configuration alone. */
template <class C> sm90_kernel row_of(const char *name)
{
    sm90_kernel kernel = {};
    kernel.name = name;
    kernel.element = C::E;
    kernel.tile_m = C::TILE_M;
    kernel.tile_n = C::TILE_N;
    kernel.tile_k = C::TILE_K;
    kernel.cluster_m = C::CLUSTER_M;
    kernel.cluster_n = C::CLUSTER_N;
    kernel.consumers = C::CONSUMERS;
    kernel.stages = C::STAGES;
    kernel.pingpong = C::PINGPONG;
    kernel.threads = C::THREADS;
    kernel.shared_bytes = C::SHARED_BYTES;
    kernel.takes_c0 = C::TAKES_C0;
    kernel.scales = C::SCALES;
    return kernel;
}

/* A row of a table: the configuration, with its functions. */
template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN, sums SUMS>
sm90_kernel row(const char *name)
{
    constexpr bool chunks = (SUMS & (CHUNKS | SPLIT)) != 0, splits = (SUMS & SPLIT) != 0;
    constexpr bool swapped = (SUMS & SWAPPED) != 0;
    using K =
        config<E, M, N, CONSUMERS, S, CM, CN, chunks ? CHUNK_CHAINS : ONE_CHAIN, true, !swapped>;
    static_assert(!K::HALVES || (SUMS & PROMOTED) == 0,
                  "all functions of a kernel have half tiles");
    sm90_kernel kernel = row_of<K>(name);
    kernel.swapped = swapped;
    kernel.chunks = chunks;
    kernel.split = splits;
    kernel.halves = !splits && K::HALVES;
    kernel.adds_chunks = E == I8; /* exact */
    if constexpr (swapped) {
        kernel.functions[0][1][0] = function<K, splits>();
    }
    if constexpr ((SUMS & CHAINS) != 0) {
        functions<E, M, N, CONSUMERS, S, CM, CN, ONE_CHAIN, false>(kernel.functions[0]);
        if constexpr (N % 64 != 0) {
            using ACROSS = config<E, M, N, CONSUMERS, S, CM, CN, ONE_CHAIN, true, false>;
            kernel.half_box = ACROSS::HALF_BOX;
            kernel.shared_bytes =
                ACROSS::SHARED_BYTES > K::SHARED_BYTES ? ACROSS::SHARED_BYTES : K::SHARED_BYTES;
        }
    }
    if constexpr (chunks && !swapped) {
        functions<E, M, N, CONSUMERS, S, CM, CN, CHUNK_CHAINS, splits>(kernel.functions[0]);
    }
    if constexpr ((SUMS & PROMOTED) != 0) {
        functions<E, M, N, CONSUMERS, S, CM, CN, PROMOTED_CHAINS, false>(kernel.functions[1]);
        kernel.adds_chunks =
            config<E, M, N, CONSUMERS, S, CM, CN, PROMOTED_CHAINS, true, true>::ADDS_CHUNKS;
    }
    return kernel;
}

} // namespace sm90

#endif
