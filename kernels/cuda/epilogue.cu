/* The epilogue as a kernel of its own, after products that a library computed (epilogue.h). */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/launch.cuh"

enum { THREADS = 256 };

template <typename Sum, typename Out>
__global__ void __launch_bounds__(THREADS)
    epilogue_kernel(const Sum *sums, uint64_t ld, uint64_t stride, uint64_t m, uint64_t n,
                    uint64_t batch, const __grid_constant__ epilogue<Out> finish)
{
    const uint64_t column = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n)
        return;
    for (uint64_t index = blockIdx.z; index < batch; index += gridDim.z)
        for (uint64_t row = (uint64_t)blockIdx.y * blockDim.y + threadIdx.y; row < m;
             row += (uint64_t)gridDim.y * blockDim.y)
            finish.store(index, row, column,
                         (typename epilogue<Out>::compute)sums[index * stride + row * ld + column]);
}

template <typename Sum, typename Out>
static enum gemmd_error epilogue_run(cudaStream_t stream, const struct gemm_problem &p,
                                     const void *sums, uint64_t ld, uint64_t stride)
{
    /* Blocks are as wide as the rows, so that all threads have work for narrow matrices too. */
    unsigned width = 1;
    while (width < THREADS && width < p.n)
        width *= 2;
    const dim3 block(width, THREADS / width);
    const dim3 grid(grid_blocks_x(p.n, block.x), grid_blocks(p.m, block.y),
                    grid_blocks(p.batch, 1));
    return launch(epilogue_kernel<Sum, Out>, grid, block, stream, (const Sum *)sums, ld, stride,
                  p.m, p.n, p.batch, epilogue<Out>(p));
}

enum gemmd_error epilogue_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                 const void *sums, uint64_t ld, uint64_t stride)
{
    const struct gemm_problem &p = *problem;
    if (p.dtype == GEMMD_I8)
        return p.out == GEMMD_I32 ? epilogue_run<int32_t, int32_t>(stream, p, sums, ld, stride)
                                  : epilogue_run<int32_t, float>(stream, p, sums, ld, stride);
    switch (p.out) {
    case GEMMD_F64:
        return epilogue_run<double, double>(stream, p, sums, ld, stride);
    case GEMMD_F32:
        return epilogue_run<float, float>(stream, p, sums, ld, stride);
    case GEMMD_F16:
        return epilogue_run<float, __half>(stream, p, sums, ld, stride);
    case GEMMD_BF16:
        return epilogue_run<float, __nv_bfloat16>(stream, p, sums, ld, stride);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
