/* The kernels of tensor_core.cuh for i8. */
#include "kernels/cuda/mma/tensor_core.cuh"

using to_i32 = tensor_core::tiles<int8_t, int32_t, false>;
using to_f32 = tensor_core::tiles<int8_t, float, false>;

enum gemmd_error tensor_core_prepare_i8(void)
{
    return tensor_core::prepare_all<to_i32, to_f32>();
}

enum gemmd_error tensor_core_launch_i8(cudaStream_t stream, enum tensor_core_tile tile,
                                       const struct gemm_problem *problem)
{
    return problem->out == GEMMD_F32 ? to_f32::run(stream, tile, *problem)
                                     : to_i32::run(stream, tile, *problem);
}
