/*
 * launch.cuh - launching a kernel so that its own error, and no earlier one, comes back.
 */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/cuda_error.h"

template <typename... Parameters, typename... Arguments>
static enum gemmd_error launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                               cudaStream_t stream, const Arguments &...arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cuda_error_code(cudaLaunchKernelEx(&config, kernel, arguments...));
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
