/*
 * table.cuh - the rows of the tables of kernels: configurations of gemm.cuh and their names.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_TABLE_CUH
#define KERNELS_CUDA_SM90_GEMM_TABLE_CUH

#include "kernels/cuda/sm90/gemm/gemm.cuh"
#include "kernels/cuda/sm90/gemm/gemm_swapped.cuh"
#include "kernels/cuda/sm90/sm90.h"

namespace sm90
{

template <class C> constexpr const void *function()
{
    return reinterpret_cast<const void *>(&sm90_gemm<C>);
}

/* The kernels of a configuration that are compiled: those whose sums are one chain, those whose
 * sums are promoted (f32 results of 16-bit types), or both. Kernels of 8-bit types and tf32 are
 * compiled for operands along k only. SWAPPED: chains of tf32 with swapped operands, whose Y lies
 * along columns. */
enum sums { NEITHER, CHAINS, PROMOTED, BOTH, SWAPPED };

template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN, bool PROMOTED>
void functions(const void *(&lies)[2][2])
{
    constexpr bool mn = element_bytes<E> == 2;
    constexpr bool x_mn = mn && (M / CN) % 64 == 0, y_mn = mn && (N / CM) % 64 == 0;
    lies[1][1] = function<config<E, M, N, CONSUMERS, S, CM, CN, PROMOTED, true, true>>();
    if constexpr (x_mn) {
        lies[0][1] = function<config<E, M, N, CONSUMERS, S, CM, CN, PROMOTED, false, true>>();
    }
    if constexpr (y_mn) {
        lies[1][0] = function<config<E, M, N, CONSUMERS, S, CM, CN, PROMOTED, true, false>>();
    }
    if constexpr (x_mn && y_mn) {
        lies[0][0] = function<config<E, M, N, CONSUMERS, S, CM, CN, PROMOTED, false, false>>();
    }
}

template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN, sums SUMS>
sm90_kernel row(const char *name)
{
    using K = config<E, M, N, CONSUMERS, S, CM, CN, false, true, SUMS != SWAPPED>;
    sm90_kernel kernel = {name,
                          (int)E,
                          (uint32_t)M,
                          (uint32_t)N,
                          (uint32_t)K::TILE_K,
                          (uint32_t)CM,
                          (uint32_t)CN,
                          (uint32_t)CONSUMERS,
                          K::STAGES,
                          K::PINGPONG,
                          (uint32_t)K::THREADS,
                          K::SHARED_BYTES,
                          false,
                          SUMS == SWAPPED,
                          E == I8, /* exact */
                          {}};
    if constexpr (SUMS == SWAPPED) {
        kernel.functions[0][1][0] = reinterpret_cast<const void *>(&sm90_gemm_swapped<K>);
    }
    if constexpr ((SUMS & CHAINS) != 0) {
        functions<E, M, N, CONSUMERS, S, CM, CN, false>(kernel.functions[0]);
    }
    if constexpr ((SUMS & PROMOTED) != 0) {
        functions<E, M, N, CONSUMERS, S, CM, CN, true>(kernel.functions[1]);
        kernel.adds_chunks = config<E, M, N, CONSUMERS, S, CM, CN, true, true, true>::ADDS_CHUNKS;
    }
    return kernel;
}

} // namespace sm90

#endif
