/* The kernels of f8_e4m3 with precision full and scales of blocks, whose operands were widened to
 * f16. */
#include "kernels/cuda/sm90/gemm/table_chains.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_f16_block[] = {
    row_of_chains<F16, 128, 128, 2, 1, 1, GEMM_SCALES_BLOCK>("f16_128x128"),
    row_of_chains<F16, 64, 64, 1, 1, 1, GEMM_SCALES_BLOCK>("f16_64x64"),
    sm90_kernel{},
};
