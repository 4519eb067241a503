#include "kernels/cuda/conv/conv.h"

const struct operation_kernel *const conv_cuda_kernels[] = {
    &conv_cuda_depthwise_strip,
    &conv_cuda_depthwise,
    &conv_cuda_implicit,
    &conv_cuda_product,
    &conv_cuda_tiled,
    &conv_cuda_naive,
    NULL,
};
