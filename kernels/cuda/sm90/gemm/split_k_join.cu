/* Adds the sums of the chunks of k and computes the epilogue (split_k.h). */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90/gemm/split_k.h"

enum { THREADS = 256, AHEAD = 16 /* sums that a thread loads before it adds the first */ };

static __device__ __forceinline__ float split_k_join_plus(float a, float b)
{
    return a + b;
}

static __device__ __forceinline__ int32_t split_k_join_plus(int32_t a, int32_t b) /* modulo 2^32 */
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

/* A thread computes elements of C: in x columns, in y rows, in z problems of the batch. */
template <typename Sum, typename Out>
__global__ void __launch_bounds__(THREADS)
    join_kernel(const Sum *sums, const __grid_constant__ split_k split, uint64_t count, uint64_t m,
                uint64_t n, uint64_t batch, const __grid_constant__ epilogue<Out> finish)
{
    const uint64_t column = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t hop = batch * split.stride; /* from chunk to chunk */
    earlier_kernels_wait();
    if (column >= n)
        return;
    for (uint64_t index = blockIdx.z; index < batch; index += gridDim.z)
        for (uint64_t row = (uint64_t)blockIdx.y * blockDim.y + threadIdx.y; row < m;
             row += (uint64_t)gridDim.y * blockDim.y) {
            const Sum *from = sums + index * split.stride + row * split.ld + column;
            Sum sum = 0;
#pragma unroll 1
            for (uint32_t chunk = 0; chunk < count; chunk += AHEAD, from += AHEAD * hop) {
                Sum next[AHEAD];
#pragma unroll
                for (uint32_t i = 0; i < AHEAD; i++)
                    next[i] = chunk + i < count ? from[i * hop] : 0;
#pragma unroll
                for (uint32_t i = 0; i < AHEAD; i++)
                    sum = split_k_join_plus(sum, next[i]);
            }
            finish.store(index, row, column, (typename epilogue<Out>::compute)sum);
        }
}

template <typename Sum, typename Out>
static enum gemmd_error split_k_join_run(cudaStream_t stream, const struct split_k &split,
                                         const struct gemm_problem &p, uint64_t count,
                                         const void *sums)
{
    /* Blocks are as wide as the rows of C, and at most THREADS wide. */
    unsigned width = 1;
    while (width < THREADS && width < p.n)
        width *= 2;
    const dim3 block(width, THREADS / width);
    const dim3 grid(grid_blocks_x(p.n, block.x), grid_blocks(p.m, block.y),
                    grid_blocks(p.batch, 1));
    return launch_overlapped(join_kernel<Sum, Out>, grid, block, 0, stream, (const Sum *)sums,
                             split, count, p.m, p.n, p.batch, epilogue<Out>(p));
}

enum gemmd_error split_k_join(cudaStream_t stream, const struct split_k *split,
                              const struct gemm_problem *problem, uint64_t count, const void *sums)
{
    const struct gemm_problem &p = *problem;
    if (p.dtype == GEMMD_I8)
        return p.out == GEMMD_I32
                   ? split_k_join_run<int32_t, int32_t>(stream, *split, p, count, sums)
                   : split_k_join_run<int32_t, float>(stream, *split, p, count, sums);
    switch (p.out) {
    case GEMMD_F32:
        return split_k_join_run<float, float>(stream, *split, p, count, sums);
    case GEMMD_F16:
        return split_k_join_run<float, __half>(stream, *split, p, count, sums);
    case GEMMD_BF16:
        return split_k_join_run<float, __nv_bfloat16>(stream, *split, p, count, sums);
    default:
        return GEMMD_ERR_UNSUPPORTED;
    }
}
