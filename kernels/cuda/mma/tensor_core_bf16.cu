/* The kernels of tensor_core.cuh for bf16. */
#include "kernels/cuda/mma/tensor_core.cuh"

using to_bf16 = tensor_core::tiles<__nv_bfloat16, __nv_bfloat16, false>;
using to_f32 = tensor_core::tiles<__nv_bfloat16, float, true>;

enum gemmd_error tensor_core_prepare_bf16(void)
{
    return tensor_core::prepare_all<to_bf16, to_f32>();
}

enum gemmd_error tensor_core_launch_bf16(cudaStream_t stream, enum tensor_core_tile tile,
                                         const struct gemm_problem *problem)
{
    return problem->out == GEMMD_F32 ? to_f32::run(stream, tile, *problem)
                                     : to_bf16::run(stream, tile, *problem);
}
