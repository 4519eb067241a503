/* The kernels of bf16. */
#include "kernels/cuda/sm90/gemm_16bit.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_kernels_bf16[] = {
    SM90_ROWS_16BIT(BF16, "bf16"),
    trial<BF16, 128, 256, 2, COOPERATIVE, 1, 2, IN_PLACE>("bf16_128x256_1x2_placed"),
    trial<BF16, 128, 256, 2, LAGGING, 1, 2, IN_PLACE>("bf16_128x256_1x2_placed_lag"),
    trial<BF16, 128, 128, 2, PINGPONG, 1, 1, IN_PLACE>("bf16_128x128_pp_placed"),
    trial<BF16, 128, 128, 2, PINGPONG, 2, 1, IN_PLACE>("bf16_128x128_pp_2x1_placed"),
    trial<BF16, 128, 64, 2, COOPERATIVE, 1, 1, IN_PLACE>("bf16_128x64_placed"),
    trial<BF16, 128, 64, 2, COOPERATIVE, 1, 2, IN_PLACE>("bf16_128x64_1x2_placed"),
    trial<BF16, 64, 64, 1, COOPERATIVE, 1, 1, IN_PLACE>("bf16_64x64_placed"),
    sm90_kernel{},
};
