/* The kernels of f32 with precision tf32. */
#include "kernels/cuda/sm90/gemm/table.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_tf32[] = {
    row<TF32, 128, 256, 2, COOPERATIVE, 1, 2, CHAINS>("tf32_128x256_1x2"),
    row<TF32, 256, 128, 2, COOPERATIVE, 1, 1, CHAINS>("tf32_256x128"),
    row<TF32, 192, 192, 3, COOPERATIVE, 1, 1, CHAINS>("tf32_192x192"),
    row<TF32, 192, 128, 3, COOPERATIVE, 1, 1, CHAINS>("tf32_192x128"),
    row<TF32, 128, 192, 2, COOPERATIVE, 1, 1, CHAINS>("tf32_128x192"),
    row<TF32, 128, 128, 2, PINGPONG, 1, 1, CHAINS>("tf32_128x128_pp"),
    row<TF32, 128, 64, 2, COOPERATIVE, 1, 1, CHAINS>("tf32_128x64"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, CHAINS>("tf32_64x64"),
    row<TF32, 128, 192, 2, COOPERATIVE, 1, 1, CHUNKS>("tf32_128x192_chunks"),
    row<TF32, 128, 128, 2, COOPERATIVE, 1, 1, CHUNKS>("tf32_128x128_chunks"),
    row<TF32, 128, 64, 2, COOPERATIVE, 1, 1, CHUNKS>("tf32_128x64_chunks"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, CHUNKS>("tf32_64x64_chunks"),
    row<TF32, 192, 192, 3, COOPERATIVE, 1, 1, SPLIT>("tf32_192x192_split"),
    row<TF32, 192, 128, 3, COOPERATIVE, 1, 1, SPLIT>("tf32_192x128_split"),
    row<TF32, 128, 192, 2, COOPERATIVE, 1, 1, SPLIT>("tf32_128x192_split"),
    row<TF32, 128, 128, 2, COOPERATIVE, 1, 1, SPLIT>("tf32_128x128_split"),
    row<TF32, 128, 64, 2, COOPERATIVE, 1, 1, SPLIT>("tf32_128x64_split"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, SPLIT>("tf32_64x64_split"),
    row<TF32, 256, 128, 2, COOPERATIVE, 1, 1, SWAPPED>("tf32_256x128_swapped"),
    row<TF32, 256, 128, 2, COOPERATIVE, 1, 2, SWAPPED>("tf32_256x128_1x2_swapped"),
    row<TF32, 192, 128, 2, COOPERATIVE, 1, 1, SWAPPED>("tf32_192x128_swapped"),
    row<TF32, 128, 128, 2, COOPERATIVE, 1, 1, SWAPPED>("tf32_128x128_swapped"),
    row<TF32, 64, 128, 2, COOPERATIVE, 1, 1, SWAPPED>("tf32_64x128_swapped"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, SWAPPED>("tf32_64x64_swapped"),
    row<TF32, 192, 128, 2, COOPERATIVE, 1, 1, SWAPPED_CHUNKS>("tf32_192x128_chunks_swapped"),
    row<TF32, 128, 128, 2, COOPERATIVE, 1, 1, SWAPPED_CHUNKS>("tf32_128x128_chunks_swapped"),
    row<TF32, 64, 128, 2, COOPERATIVE, 1, 1, SWAPPED_CHUNKS>("tf32_64x128_chunks_swapped"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, SWAPPED_CHUNKS>("tf32_64x64_chunks_swapped"),
    row<TF32, 128, 128, 2, COOPERATIVE, 1, 1, SWAPPED_SPLIT>("tf32_128x128_split_swapped"),
    row<TF32, 64, 128, 2, COOPERATIVE, 1, 1, SWAPPED_SPLIT>("tf32_64x128_split_swapped"),
    row<TF32, 64, 64, 1, COOPERATIVE, 1, 1, SWAPPED_SPLIT>("tf32_64x64_split_swapped"),
    sm90_kernel{},
};
