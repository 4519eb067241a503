/* The convolution kernels of f16. */
#include "kernels/cuda/sm90/conv/conv.cuh"

extern "C" const sm90_kernel sm90_conv_kernels_f16[] = {SM90_CONV_ROWS_16BIT(sm90::F16, "f16"),
                                                        sm90_kernel{}};
