/* The kernels of tensor_core.cuh for f16. */
#include "kernels/cuda/mma/tensor_core.cuh"

using to_f16 = tensor_core::tiles<__half, __half, false>;
using to_f32 = tensor_core::tiles<__half, float, true>;

enum gemmd_error tensor_core_prepare_f16(void)
{
    return tensor_core::prepare_all<to_f16, to_f32>();
}

enum gemmd_error tensor_core_launch_f16(cudaStream_t stream, enum tensor_core_tile tile,
                                        const struct gemm_problem *problem)
{
    return problem->out == GEMMD_F32 ? to_f32::run(stream, tile, *problem)
                                     : to_f16::run(stream, tile, *problem);
}
