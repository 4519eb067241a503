/* The kernels of tensor_core.cuh for bf16. */
#include "kernels/cuda/tensor_core.cuh"

enum gemmd_error tensor_core_prepare_bf16(void)
{
    return tensor_core::kernels<__nv_bfloat16>::prepare();
}

enum gemmd_error tensor_core_launch_bf16(cudaStream_t stream, enum tensor_core_tile tile,
                                         const struct gemm_problem *problem)
{
    return tensor_core::kernels<__nv_bfloat16>::run(stream, tile, *problem);
}
