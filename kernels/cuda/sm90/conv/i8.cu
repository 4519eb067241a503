/* The convolution kernels of i8: sums in 32-bit integers, exact modulo 2^32. */
#include "kernels/cuda/sm90/conv/conv.cuh"

using namespace sm90;

extern "C" const sm90_kernel sm90_conv_kernels_i8[] = {
    conv_row<I8, 128, 256, 2, COOPERATIVE, 1, 2>("i8_128x256_1x2"),
    conv_row<I8, 128, 128, 2, PINGPONG, 2, 1>("i8_128x128_pp_2x1"),
    conv_row<I8, 128, 64, 2, COOPERATIVE, 1, 1>("i8_128x64"),
    conv_row<I8, 64, 64, 1, COOPERATIVE, 1, 1>("i8_64x64"),
    sm90_kernel{},
};
