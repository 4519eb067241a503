/*
 * table_chains.cuh - rows of the tables of kernels whose sums are added after each 128 steps of k
 * (gemm_f8.cuh).
 */
#ifndef KERNELS_CUDA_SM90_GEMM_TABLE_CHAINS_CUH
#define KERNELS_CUDA_SM90_GEMM_TABLE_CHAINS_CUH

#include "kernels/cuda/sm90/gemm/gemm_f8.cuh"
#include "kernels/cuda/sm90/gemm/table.cuh"

namespace sm90
{

template <element E, int M, int N, int CONSUMERS, int CM, int CN, enum gemm_scales SCALES, bool XK,
          bool YK>
void chain_function(sm90_kernel &kernel)
{
    using C = config<E, M, N, CONSUMERS, COOPERATIVE, CM, CN, STAGE_CHAINS, XK, YK, SCALES>;
    kernel.functions[0][XK][YK] = reinterpret_cast<const void *>(&sm90_gemm_f8<C>);
}

/* Kernels of f8 are for operands along k, those of f16 for operands of any layout. */
template <element E, int M, int N, int CONSUMERS, int CM, int CN, enum gemm_scales SCALES>
sm90_kernel row_of_chains(const char *name)
{
    sm90_kernel kernel =
        row_of<config<E, M, N, CONSUMERS, COOPERATIVE, CM, CN, STAGE_CHAINS, true, true, SCALES>>(
            name);
    chain_function<E, M, N, CONSUMERS, CM, CN, SCALES, true, true>(kernel);
    if constexpr (E != F8) {
        chain_function<E, M, N, CONSUMERS, CM, CN, SCALES, true, false>(kernel);
        chain_function<E, M, N, CONSUMERS, CM, CN, SCALES, false, true>(kernel);
        chain_function<E, M, N, CONSUMERS, CM, CN, SCALES, false, false>(kernel);
    }
    return kernel;
}

} // namespace sm90

#endif
