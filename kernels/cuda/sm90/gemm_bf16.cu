/* The kernels of bf16; those after the ones that serve are on trial. */
#include "kernels/cuda/sm90/gemm_16bit.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_bf16[] = {
    SM90_ROWS_16BIT(BF16, "bf16"),
    row<BF16, 128, 256, 2, COOPERATIVE, 2, 1, false, TRIAL>("bf16_128x256_2x1"),
    row<BF16, 128, 256, 2, COOPERATIVE, 1, 2, false, TRIAL>("bf16_128x256_1x2"),
    row<BF16, 256, 128, 2, COOPERATIVE, 2, 1, false, TRIAL>("bf16_256x128_2x1"),
    row<BF16, 256, 128, 2, COOPERATIVE, 1, 2, false, TRIAL>("bf16_256x128_1x2"),
    row<BF16, 128, 192, 2, COOPERATIVE, 1, 1, false, TRIAL>("bf16_128x192"),
    row<BF16, 128, 128, 2, COOPERATIVE, 2, 1, false, TRIAL>("bf16_128x128_2x1"),
    row<BF16, 128, 128, 2, COOPERATIVE, 1, 2, false, TRIAL>("bf16_128x128_1x2"),
    row<BF16, 128, 64, 2, COOPERATIVE, 1, 2, false, TRIAL>("bf16_128x64_1x2"),
    row<BF16, 64, 64, 1, COOPERATIVE, 1, 1, false, TRIAL>("bf16_64x64"),
    row<BF16, 128, 128, 2, PINGPONG, 1, 1, false, TRIAL>("bf16_128x128_pp"),
    row<BF16, 128, 128, 2, PINGPONG, 2, 1, false, TRIAL>("bf16_128x128_pp_2x1"),
    row<BF16, 64, 256, 2, PINGPONG, 1, 1, false, TRIAL>("bf16_64x256_pp"),
    sm90_kernel{},
};
