/*
 * launch.cuh - launches of kernels that return the error of the launch itself, not an earlier
 * error.
 */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda_error.h"

/* `shared_bytes` of shared memory besides what the kernel declares. */
template <typename... Parameters, typename... Arguments>
static enum gemmd_error launch_with_memory(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                           size_t shared_bytes, cudaStream_t stream,
                                           const Arguments &...arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    return cuda_error_code(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/* The same for a kernel that calls earlier_kernels_wait before it touches memory: it may start
 * while the one before it still runs. */
template <typename... Parameters, typename... Arguments>
static enum gemmd_error launch_overlapped(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                          size_t shared_bytes, cudaStream_t stream,
                                          const Arguments &...arguments)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cuda_error_code(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/* Waits until the kernels before this one have ended and their writes are seen; from the second on
 * blocks of the next kernel may start where this one leaves room. GPUs before sm_90 run kernels one
 * after another. */
static __device__ __forceinline__ void earlier_kernels_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ __forceinline__ void later_kernels_allow()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <typename... Parameters, typename... Arguments>
static enum gemmd_error launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                               cudaStream_t stream, const Arguments &...arguments)
{
    return launch_with_memory(kernel, grid, block, 0, stream, arguments...);
}

/* The number of blocks of `size` that cover `count`, or the grid's limit in y and z if there are
 * more: kernels loop over the rest. */
static inline unsigned grid_blocks(uint64_t count, uint64_t size)
{
    const uint64_t blocks = (count + size - 1) / size, limit = 65535;
    return (unsigned)(blocks < limit ? blocks : limit);
}

/* The same in x, where dimensions of less than 2^31 always fit. */
static inline unsigned grid_blocks_x(uint64_t count, uint64_t size)
{
    return (unsigned)((count + size - 1) / size);
}

#endif
