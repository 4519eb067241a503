/* The convolution kernels of f32 with precision tf32. */
#include "kernels/cuda/sm90/conv/conv.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_conv_kernels_tf32[] = {
    conv_row<TF32, 128, 256, 2, COOPERATIVE, 1, 2>("tf32_128x256_1x2"),
    conv_row<TF32, 128, 128, 2, PINGPONG, 2, 1>("tf32_128x128_pp_2x1"),
    conv_row<TF32, 128, 64, 2, COOPERATIVE, 1, 1>("tf32_128x64"),
    conv_row<TF32, 64, 64, 1, COOPERATIVE, 1, 1>("tf32_64x64"),
    sm90_kernel{},
};
