/* The convolution kernels of bf16. */
#include "kernels/cuda/sm90/conv/conv.cuh"

extern "C" const sm90_kernel sm90_conv_kernels_bf16[] = {SM90_CONV_ROWS_16BIT(sm90::BF16, "bf16"),
                                                         sm90_kernel{}};
