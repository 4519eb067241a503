/*
 * grouped_f32 - many products of f32 in one launch, with the same bits as
 * kernels/cuda/grouped/grouped.cu. Without the code of other types a thread needs few enough
 * registers for five blocks on a multiprocessor.
 */
#include "kernels/cuda/grouped/tile.cuh"
#include "kernels/cuda/launch.cuh"

namespace grouped
{

static_assert(sizeof(struct grouped_f32_parameters) <= 32764, "a launch's parameters");

/* 5 blocks fit on a multiprocessor. A list may be computed in several launches, whose blocks
 * overlap: those of the next launch begin where the last blocks of this one leave room. The last
 * block waits for the launch before, so that a launch ends after all launches before it. */
__global__ void __launch_bounds__(THREADS, 5)
    grouped_f32_kernel(const __grid_constant__ struct grouped_f32_parameters parameters)
{
    extern __shared__ __align__(1024) char slabs[]; // the alignment of the parts of B
    __shared__ struct task task;
    later_kernels_allow();
    find_task(&task, parameters);
    compute_f32<__half, __nv_bfloat16>(task, slabs);
    if (blockIdx.x + 1 == gridDim.x)
        earlier_kernels_wait();
}

} // namespace grouped

cudaError_t grouped_f32_prepare(void)
{
    return cudaFuncSetAttribute(grouped::grouped_f32_kernel,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, GROUPED_F32_BYTES);
}

enum gemmd_error grouped_f32_start(cudaStream_t stream,
                                   const struct grouped_f32_parameters *parameters, uint32_t tiles,
                                   bool overlapped)
{
    const dim3 grid(tiles), block(grouped::THREADS);
    if (overlapped)
        return launch_overlapped(grouped::grouped_f32_kernel, grid, block, GROUPED_F32_BYTES,
                                 stream, *parameters);
    return launch_with_memory(grouped::grouped_f32_kernel, grid, block, GROUPED_F32_BYTES, stream,
                              *parameters);
}
