/*
 * naive - one thread for each element of C, which reads its operands from device memory each time.
 *
 * The first rung of the ladder (kernels/LADDER.md). Each element of C is one chain of fused
 * multiply-adds in the order of k. On an H100 the kernel has 3.8 TFLOP/s of f32 for m = n = k =
 * 2048 and 2.2 for 4096. With B transposed, the reads of B are not coalesced, and the kernel has
 * 0.9 TFLOP/s.
 *
 * The grid covers C in x (columns) and y (rows), and the batch in z. Where a grid cannot be as
 * large as C or the batch, a thread computes several elements, one after another.
 */
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/ladder/dispatch.cuh"
#include "kernels/cuda/ladder/ladder.h"
#include "kernels/cuda/launch.cuh"

enum { SIDE = 16 }; /* threads of a block in each direction */

static __device__ __forceinline__ float multiply_add(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static __device__ __forceinline__ double multiply_add(double a, double b, double c)
{
    return fma(a, b, c);
}

template <typename In, typename Out>
__global__ void __launch_bounds__(SIDE *SIDE)
    naive_kernel(const __grid_constant__ struct gemm_problem p,
                 const __grid_constant__ epilogue<Out> finish)
{
    const uint64_t column = (uint64_t)blockIdx.x * SIDE + threadIdx.x;
    /* In elements, from one k to the next. */
    const uint64_t a_step = p.transa ? p.lda : 1, b_step = p.transb ? 1 : p.ldb;
    if (column >= p.n)
        return;
    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) { /* in the batch */
        const In *b = (const In *)p.b + index * p.stride_b + column * (p.transb ? p.ldb : 1);
        for (uint64_t row = (uint64_t)blockIdx.y * SIDE + threadIdx.y; row < p.m;
             row += (uint64_t)gridDim.y * SIDE) {
            const In *a = (const In *)p.a + index * p.stride_a + row * (p.transa ? 1 : p.lda);
            typename epilogue<Out>::compute sum = 0;
            for (uint64_t i = 0; i < p.k; i++)
                sum = multiply_add(widen(a[i * a_step]), widen(b[i * b_step]), sum);
            finish.store(index, row, column, sum);
        }
    }
}

enum gemmd_error naive_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    const struct gemm_problem &p = *problem;
    const dim3 grid(grid_blocks_x(p.n, SIDE), grid_blocks(p.m, SIDE), grid_blocks(p.batch, 1));
    return ladder::with_types(p, [&](auto in, auto out) {
        using In = typename decltype(in)::type;
        using Out = typename decltype(out)::type;
        return launch(naive_kernel<In, Out>, grid, dim3(SIDE, SIDE), stream, p, epilogue<Out>(p));
    });
}
