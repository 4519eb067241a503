/* The kernels of tensor_core.cuh for f32 with precision tf32. */
#include "kernels/cuda/mma/tensor_core.cuh"

using to_f32 = tensor_core::tiles<float, float, true>;
using to_f16 = tensor_core::tiles<float, __half, false>;
using to_bf16 = tensor_core::tiles<float, __nv_bfloat16, false>;

enum gemmd_error tensor_core_prepare_tf32(void)
{
    return tensor_core::prepare_all<to_f32, to_f16, to_bf16>();
}

enum gemmd_error tensor_core_launch_tf32(cudaStream_t stream, enum tensor_core_tile tile,
                                         const struct gemm_problem *problem)
{
    switch (problem->out) {
    case GEMMD_F16:
        return to_f16::run(stream, tile, *problem);
    case GEMMD_BF16:
        return to_bf16::run(stream, tile, *problem);
    default:
        return to_f32::run(stream, tile, *problem);
    }
}
