/*
 * launch.cuh - launches of kernels that return the error of the launch itself, not an earlier
 * error.
 */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda_error.h"

/* Launches with `shared_bytes` bytes of dynamic shared memory. */
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

/* Launches a kernel that may start while the previous kernel on the stream still runs. The kernel
 * must call earlier_kernels_wait before it accesses memory that earlier kernels use. */
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

/* earlier_kernels_wait waits until the previous kernels have ended and their writes are visible.
 * After later_kernels_allow, blocks of the next kernel may start where this kernel leaves room.
 * GPUs before sm_90 run kernels one after another. */
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

/* The number of blocks of `size` elements that cover `count` elements, at most the limit of a grid
 * in y and z. Kernels loop over the rest. */
static inline unsigned grid_blocks(uint64_t count, uint64_t size)
{
    const uint64_t blocks = (count + size - 1) / size, limit = 65535;
    return (unsigned)(blocks < limit ? blocks : limit);
}

/* The same in x, where the grid's limit is above every dimension. */
static inline unsigned grid_blocks_x(uint64_t count, uint64_t size)
{
    return (unsigned)((count + size - 1) / size);
}

#endif
