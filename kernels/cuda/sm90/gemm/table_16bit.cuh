/*
 * table_16bit.cuh - the configurations for bf16 and f16. The table of f16 is in f16.cu. The kernels
 * that the table names take the compiler minutes; f16_wide.cu, f16_chains.cu and f16_chunks.cu have
 * a third of them each, so that several cores compile them. It is the same for bf16.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_TABLE_16BIT_CUH
#define KERNELS_CUDA_SM90_GEMM_TABLE_16BIT_CUH

#include "kernels/cuda/sm90/gemm/table.cuh"

/* A name has the rows and columns of the tile of C, then _pp for ping-pong, then the blocks of a
 * cluster along m and n; _chunks and _split are the kinds of split-k in one launch (split_k.h). The
 * template parameters are those of config (gemm.cuh), and then which sums are compiled. Of tiles
 * with the same estimate the first is chosen. kernels/experiments/choice.md says how to add one. */
/* clang-format off */
#define SM90_16BIT_WIDE(ROW, E, PREFIX)                                                            \
    ROW(E, 128, 256, 2, COOPERATIVE, 1, 2, CHAINS, PREFIX "_128x256_1x2")                          \
    ROW(E, 256, 128, 2, COOPERATIVE, 1, 1, CHAINS, PREFIX "_256x128")                              \
    ROW(E, 192, 192, 3, COOPERATIVE, 1, 1, CHAINS, PREFIX "_192x192")                              \
    ROW(E, 256, 160, 2, COOPERATIVE, 1, 1, CHAINS, PREFIX "_256x160")                              \
    ROW(E, 128, 160, 2, PINGPONG, 1, 1, CHAINS, PREFIX "_128x160_pp")
#define SM90_16BIT_CHAINS(ROW, E, PREFIX)                                                          \
    ROW(E, 64, 96, 1, COOPERATIVE, 1, 1, CHAINS, PREFIX "_64x96")                                  \
    ROW(E, 128, 96, 2, COOPERATIVE, 1, 1, CHAINS, PREFIX "_128x96")                                \
    ROW(E, 192, 128, 3, COOPERATIVE, 1, 1, CHAINS, PREFIX "_192x128")                              \
    ROW(E, 128, 192, 2, PINGPONG, 1, 1, CHAINS, PREFIX "_128x192_pp")                              \
    ROW(E, 128, 128, 2, COOPERATIVE, 1, 1, BOTH, PREFIX "_128x128")                                \
    ROW(E, 128, 128, 2, PINGPONG, 1, 1, CHAINS, PREFIX "_128x128_pp")                              \
    ROW(E, 128, 64, 2, COOPERATIVE, 1, 1, BOTH, PREFIX "_128x64")                                  \
    ROW(E, 64, 64, 1, COOPERATIVE, 1, 1, BOTH, PREFIX "_64x64")
#define SM90_16BIT_CHUNKS(ROW, E, PREFIX)                                                          \
    ROW(E, 192, 128, 3, COOPERATIVE, 1, 1, CHUNKS, PREFIX "_192x128_chunks")                       \
    ROW(E, 128, 128, 2, COOPERATIVE, 1, 1, CHUNKS, PREFIX "_128x128_chunks")                       \
    ROW(E, 64, 192, 1, COOPERATIVE, 1, 1, CHUNKS, PREFIX "_64x192_chunks")                         \
    ROW(E, 64, 128, 1, COOPERATIVE, 1, 1, CHUNKS, PREFIX "_64x128_chunks")                         \
    ROW(E, 64, 64, 1, COOPERATIVE, 1, 1, CHUNKS, PREFIX "_64x64_chunks")                           \
    ROW(E, 192, 192, 3, COOPERATIVE, 1, 1, SPLIT, PREFIX "_192x192_split")                         \
    ROW(E, 192, 128, 3, COOPERATIVE, 1, 1, SPLIT, PREFIX "_192x128_split")                         \
    ROW(E, 128, 192, 2, COOPERATIVE, 1, 1, SPLIT, PREFIX "_128x192_split")                         \
    ROW(E, 128, 128, 2, COOPERATIVE, 1, 1, SPLIT, PREFIX "_128x128_split")                         \
    ROW(E, 128, 64, 2, COOPERATIVE, 1, 1, SPLIT, PREFIX "_128x64_split")                           \
    ROW(E, 64, 128, 1, COOPERATIVE, 1, 1, SPLIT, PREFIX "_64x128_split")                           \
    ROW(E, 64, 64, 1, COOPERATIVE, 1, 1, SPLIT, PREFIX "_64x64_split")
#define SM90_16BIT(ROW, E, PREFIX)                                                                 \
    SM90_16BIT_WIDE(ROW, E, PREFIX)                                                                \
    SM90_16BIT_CHAINS(ROW, E, PREFIX)                                                              \
    SM90_16BIT_CHUNKS(ROW, E, PREFIX)

/* What ROW can be. SM90_ROW is a row of the table. SM90_ROW_ELSEWHERE declares that another file compiles the
 * kernels of the row, and SM90_ROW_HERE compiles them. */
#define SM90_ROW(E, M, N, CONSUMERS, S, CM, CN, SUMS, NAME) \
    sm90::row<sm90::E, M, N, CONSUMERS, sm90::S, CM, CN, sm90::SUMS>(NAME),
#define SM90_ROW_ELSEWHERE(E, M, N, CONSUMERS, S, CM, CN, SUMS, NAME) \
    extern template sm90_kernel sm90::row<sm90::E, M, N, CONSUMERS, sm90::S, CM, CN, sm90::SUMS>(const char *);
#define SM90_ROW_HERE(E, M, N, CONSUMERS, S, CM, CN, SUMS, NAME) \
    template sm90_kernel sm90::row<sm90::E, M, N, CONSUMERS, sm90::S, CM, CN, sm90::SUMS>(const char *);
/* clang-format on */

#endif
