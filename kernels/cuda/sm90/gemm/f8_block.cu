/* The kernels of f8_e4m3 with precision f8 and scales of blocks. */
#include "kernels/cuda/sm90/gemm/table_chains.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_f8_block[] = {
    row_of_chains<F8, 128, 128, 2, 1, 1, GEMM_SCALES_BLOCK>("f8_128x128"),
    row_of_chains<F8, 128, 128, 2, 1, 2, GEMM_SCALES_BLOCK>("f8_128x128_1x2"),
    row_of_chains<F8, 128, 64, 2, 1, 1, GEMM_SCALES_BLOCK>("f8_128x64"),
    row_of_chains<F8, 64, 64, 1, 1, 1, GEMM_SCALES_BLOCK>("f8_64x64"),
    sm90_kernel{},
};
