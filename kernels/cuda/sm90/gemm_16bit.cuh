/*
 * gemm_16bit.cuh - the configurations of bf16 and f16 that serve; each type's .cu names them.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_16BIT_CUH
#define KERNELS_CUDA_SM90_GEMM_16BIT_CUH

#include "kernels/cuda/sm90/table.cuh"

/* name: tile of D, then _pp for ping-pong, then the cluster; s: swapped operands. */
/* clang-format off */
#define SM90_ROWS_16BIT(E, PREFIX)                                                                 \
    sm90::row<E, 128, 256, 2, sm90::COOPERATIVE, 1, 1, false, sm90::SERVES>(PREFIX "_128x256"),    \
    sm90::row<E, 256, 128, 2, sm90::COOPERATIVE, 1, 1, false, sm90::SERVES>(PREFIX "_256x128"),    \
    sm90::row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 1, false, sm90::PROMOTES>(PREFIX "_128x128"),  \
    sm90::row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 1, false, sm90::PROMOTES>(PREFIX "_128x64"),    \
    sm90::row<E, 64, 16, 1, sm90::COOPERATIVE, 1, 1, true, sm90::PROMOTES>(PREFIX "_s64x16"),      \
    sm90::row<E, 64, 32, 1, sm90::COOPERATIVE, 1, 1, true, sm90::SERVES>(PREFIX "_s64x32"),        \
    sm90::row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1, true, sm90::PROMOTES>(PREFIX "_s64x64")
/* clang-format on */

#endif
