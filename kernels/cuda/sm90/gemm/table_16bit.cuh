/*
 * table_16bit.cuh - the configurations for bf16 and f16, which bf16.cu and f16.cu name.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_TABLE_16BIT_CUH
#define KERNELS_CUDA_SM90_GEMM_TABLE_16BIT_CUH

#include "kernels/cuda/sm90/gemm/table.cuh"

/* A name has the rows and columns of the tile of C, then _pp for ping-pong, then the blocks of a
 * cluster along m and n; _chunks and _split are the kinds of split-k in one launch (split_k.h). The
 * template parameters are those of config (gemm.cuh), and then which sums are compiled. */
/* clang-format off */
#define SM90_ROWS_16BIT(E, PREFIX)                                                                 \
    sm90::row<E, 128, 256, 2, sm90::COOPERATIVE, 1, 2, sm90::CHAINS>(PREFIX "_128x256_1x2"),       \
    sm90::row<E, 256, 128, 2, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_256x128"),           \
    sm90::row<E, 192, 192, 3, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_192x192"),           \
    sm90::row<E, 256, 160, 2, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_256x160"),           \
    sm90::row<E, 128, 160, 2, sm90::PINGPONG, 1, 1, sm90::CHAINS>(PREFIX "_128x160_pp"),           \
    sm90::row<E, 64, 96, 1, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_64x96"),               \
    sm90::row<E, 128, 96, 2, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_128x96"),             \
    sm90::row<E, 192, 128, 3, sm90::COOPERATIVE, 1, 1, sm90::CHAINS>(PREFIX "_192x128"),           \
    sm90::row<E, 128, 192, 2, sm90::PINGPONG, 1, 1, sm90::CHAINS>(PREFIX "_128x192_pp"),           \
    sm90::row<E, 128, 128, 2, sm90::PINGPONG, 1, 1, sm90::CHAINS>(PREFIX "_128x128_pp"),           \
    sm90::row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 1, sm90::BOTH>(PREFIX "_128x128"),             \
    sm90::row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 1, sm90::BOTH>(PREFIX "_128x64"),               \
    sm90::row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1, sm90::BOTH>(PREFIX "_64x64"),                 \
    sm90::row<E, 192, 128, 3, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_192x128_chunks"),    \
    sm90::row<E, 128, 192, 2, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_128x192_chunks"),    \
    sm90::row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_128x128_chunks"),    \
    sm90::row<E, 64, 192, 1, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_64x192_chunks"),      \
    sm90::row<E, 64, 128, 1, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_64x128_chunks"),      \
    sm90::row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1, sm90::CHUNKS>(PREFIX "_64x64_chunks"),        \
    sm90::row<E, 192, 192, 3, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_192x192_split"),      \
    sm90::row<E, 192, 128, 3, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_192x128_split"),      \
    sm90::row<E, 128, 192, 2, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_128x192_split"),      \
    sm90::row<E, 128, 128, 2, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_128x128_split"),      \
    sm90::row<E, 128, 64, 2, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_128x64_split"),        \
    sm90::row<E, 64, 128, 1, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_64x128_split"),        \
    sm90::row<E, 64, 64, 1, sm90::COOPERATIVE, 1, 1, sm90::SPLIT>(PREFIX "_64x64_split")
/* clang-format on */

#endif
