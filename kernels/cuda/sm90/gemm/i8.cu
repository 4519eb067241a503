/* The kernels of i8: sums in 32-bit integers, exact modulo 2^32. */
#include "kernels/cuda/sm90/gemm/table.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_i8[] = {
    row<I8, 128, 256, 2, COOPERATIVE, 1, 2, CHAINS>("i8_128x256_1x2"),
    row<I8, 256, 128, 2, COOPERATIVE, 1, 1, CHAINS>("i8_256x128"),
    row<I8, 192, 192, 3, COOPERATIVE, 1, 1, CHAINS>("i8_192x192"),
    row<I8, 128, 192, 2, COOPERATIVE, 1, 1, CHAINS>("i8_128x192"),
    row<I8, 128, 128, 2, PINGPONG, 1, 1, CHAINS>("i8_128x128_pp"),
    row<I8, 128, 128, 2, PINGPONG, 2, 1, CHAINS>("i8_128x128_pp_2x1"),
    row<I8, 128, 64, 2, COOPERATIVE, 1, 1, CHAINS>("i8_128x64"),
    row<I8, 64, 64, 1, COOPERATIVE, 1, 1, CHAINS>("i8_64x64"),
    sm90_kernel{},
};
