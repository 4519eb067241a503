/* The kernels of tensor_core.cuh for f16. */
#include "kernels/cuda/tensor_core.cuh"

enum gemmd_error tensor_core_prepare_f16(void)
{
    return tensor_core::kernels<__half>::prepare();
}

enum gemmd_error tensor_core_launch_f16(cudaStream_t stream, enum tensor_core_tile tile,
                                        const struct gemm_problem *problem)
{
    return tensor_core::kernels<__half>::run(stream, tile, *problem);
}
