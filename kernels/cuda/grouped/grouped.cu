/*
 * grouped - many products of any shapes and types in one launch. Operands are read from device
 * memory or from mapped host memory, without copies.
 */
#include "kernels/cuda/grouped/tile.cuh"
#include "kernels/cuda/launch.cuh"

namespace grouped
{

static_assert(sizeof(struct grouped_parameters) <= 4096, "a launch's parameters");

/* 4 blocks a multiprocessor. */
__global__ void __launch_bounds__(THREADS, 4)
    grouped_kernel(const __grid_constant__ struct grouped_parameters parameters)
{
    extern __shared__ __align__(1024) char slabs[]; // the alignment of the parts of B
    __shared__ struct task task;
    later_kernels_allow(); /* the check of the products (freivalds.cu) reads A and B meanwhile */
    find_task(&task, parameters);
    switch (task.entry.dtype) {
    case GEMMD_F64:
        compute<double, tensor_sums<double>, double>(task, slabs);
        break;
    case GEMMD_F32:
        compute_f32<__half, __nv_bfloat16>(task, slabs);
        break;
    case GEMMD_F16:
        compute_floats<__half, __half>(task, slabs);
        break;
    case GEMMD_BF16:
        compute_floats<__nv_bfloat16, __nv_bfloat16>(task, slabs);
        break;
    case GEMMD_I8:
        compute<int8_t, chain_sums<int8_t, int32_t>, int32_t, float>(task, slabs);
        break;
    default:
        compute<__nv_fp8_e4m3, chain_sums<__nv_fp8_e4m3, float>, float, __half, __nv_bfloat16>(
            task, slabs);
        break;
    }
}

} // namespace grouped

enum gemmd_error grouped_prepare(void)
{
    return cuda_error_code(cudaFuncSetAttribute(grouped::grouped_kernel,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                GROUPED_SLABS * GROUPED_SLAB_BYTES));
}

enum gemmd_error grouped_start(cudaStream_t stream, const struct grouped_parameters *parameters,
                               uint32_t tiles, uint32_t bytes)
{
    return launch_with_memory(grouped::grouped_kernel, dim3(tiles), dim3(grouped::THREADS), bytes,
                              stream, *parameters);
}
