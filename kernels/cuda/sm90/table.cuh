/*
 * table.cuh - rows of the tables of kernels: the configurations of gemm.cuh, with their names.
 */
#ifndef KERNELS_CUDA_SM90_TABLE_CUH
#define KERNELS_CUDA_SM90_TABLE_CUH

#include "kernels/cuda/sm90/gemm.cuh"
#include "kernels/cuda/sm90/sm90.h"

namespace sm90
{

template <class C> constexpr const void *function()
{
    return reinterpret_cast<const void *>(&sm90_gemm<C>);
}

/* MAJORS: which lies of the operands are compiled: for 8-bit types and tf32 only both along k; for
 * swapped kernels narrower than an MN-major box only Y along k. */
template <element E, int M, int N, int CONSUMERS, schedule S, int CM, int CN, bool SWAPPED>
sm90_kernel row(const char *name)
{
    using K = config<E, M, N, CONSUMERS, S, CM, CN, SWAPPED, true, true>;
    constexpr bool mn = element_bytes<E> == 2;
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
                          SWAPPED,
                          (uint32_t)K::THREADS,
                          K::SHARED_BYTES,
                          {{nullptr, nullptr}, {nullptr, nullptr}}};
    kernel.functions[1][1] = function<K>();
    if constexpr (mn && (M / CN) % 64 == 0) {
        kernel.functions[0][1] =
            function<config<E, M, N, CONSUMERS, S, CM, CN, SWAPPED, false, true>>();
    }
    if constexpr (mn && (N / CM) % 64 == 0) {
        kernel.functions[1][0] =
            function<config<E, M, N, CONSUMERS, S, CM, CN, SWAPPED, true, false>>();
    }
    if constexpr (mn && (M / CN) % 64 == 0 && (N / CM) % 64 == 0) {
        kernel.functions[0][0] =
            function<config<E, M, N, CONSUMERS, S, CM, CN, SWAPPED, false, false>>();
    }
    return kernel;
}

} // namespace sm90

#endif
