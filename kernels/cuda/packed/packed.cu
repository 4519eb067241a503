/* packed on any GPU since sm_80, of which some have 99 KiB of shared memory for a block. */
#include "kernels/cuda/packed/packed.cuh"

namespace packed
{

using any_gpu = kernels<one_block, width<1, by_mma>, width<2, by_mma>>;

} // namespace packed

enum gemmd_error packed_prepare(void)
{
    return cuda_error_code(packed::any_gpu::prepare());
}

enum gemmd_error packed_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    return packed::any_gpu::launch(stream, *problem, packed_slices(&problem->packed));
}
