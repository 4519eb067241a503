/*
 * gemm_16bit.cuh - the table of bf16's and f16's kernels; each type's .cu names it.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_16BIT_CUH
#define KERNELS_CUDA_SM90_GEMM_16BIT_CUH

#include "kernels/cuda/sm90/table.cuh"

/* name: tile of D, then _pp for ping-pong, then the cluster; s: swapped operands. */
#define SM90_TABLE_16BIT(E, PREFIX)                                                                \
    {                                                                                              \
        sm90::row<E, 128, 256, 2, sm90::COOPERATIVE, 1, 1, false>(PREFIX "_128x256"),              \
            sm90::row<E, 128, 256, 2, sm90::COOPERATIVE, 2, 1, false>(PREFIX "_128x256_2x1"),      \
            sm90::row<E, 128, 256, 2, sm90::COOPERATIVE, 1, 2, false>(PREFIX "_128x256_1x2"),      \
            sm90::row<E, 256, 128, 2, sm90::COOPERATIVE, 1, 1, false>(PREFIX "_256x128"),          \
            sm90::row<E, 256, 128, 2, sm90::COOPERATIVE, 2, 1, false>(PREFIX "_256x128_2x1"),      \
            sm90::row<E, 256, 128, 2, sm90::COOPERATIVE, 1, 2, false>(PREFIX "_256x128_1x2"),      \
            sm90::row<E, 128, 128, 2, sm90::PINGPONG, 1, 1, false>(PREFIX "_128x128_pp"),          \
            sm90::row<E, 128, 128, 2, sm90::PINGPONG, 2, 1, false>(PREFIX "_128x128_pp_2x1"),      \
            sm90::row<E, 64, 256, 2, sm90::PINGPONG, 2, 1, false>(PREFIX "_64x256_pp_2x1"),        \
            sm90::row<E, 128, 192, 2, sm90::COOPERATIVE, 1, 1, false>(PREFIX "_128x192"),          \
            sm90::row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 1, false>(PREFIX "_128x128"),          \
            sm90::row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 1, false>(PREFIX "_128x64"),            \
            sm90::row<E, 64, 128, 2, sm90::PINGPONG, 1, 1, false>(PREFIX "_64x128_pp"),            \
            sm90::row<E, 64, 16, 1, sm90::COOPERATIVE, 1, 1, true>(PREFIX "_s64x16"),              \
            sm90::row<E, 64, 32, 1, sm90::COOPERATIVE, 1, 1, true>(PREFIX "_s64x32"),              \
            sm90::row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1, true>(PREFIX "_s64x64"), sm90_kernel  \
        {                                                                                          \
        }                                                                                          \
    }

#endif
