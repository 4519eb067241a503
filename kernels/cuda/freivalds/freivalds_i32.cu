/* The check of i8 products to i32 on the GPU. Everything is arithmetic modulo 2^32. */
#include "kernels/cuda/freivalds/freivalds.h"
#include "kernels/cuda/freivalds/sums.cuh"
#include "kernels/freivalds.h"

namespace freivalds
{

struct i32_vectors {
    uint64_t *residual;          /* the largest, as the bits of a double */
    double *residuals;           /* [batch][m] */
    uint32_t *r, *br, *expected; /* [n], [batch][k] of op(B) * r, and [batch][m] */
};

static i32_vectors i32_place(const struct gemm_problem &p, double *residuals, void *workspace)
{
    double *own = (double *)((char *)workspace + FREIVALDS_ROWS_OFFSET);
    uint32_t *r = (uint32_t *)(own + p.batch * p.m), *br = r + p.n;
    return {(uint64_t *)workspace, residuals != NULL ? residuals : own, r, br, br + p.batch * p.k};
}

__global__ void __launch_bounds__(THREADS)
    i32_fill_kernel(uint64_t *residual, uint32_t *r, uint64_t n, uint64_t seed)
{
    later_kernels_allow();
    earlier_kernels_wait();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *residual = 0;
    for (uint64_t j = (uint64_t)blockIdx.x * THREADS + threadIdx.x; j < n;
         j += (uint64_t)gridDim.x * THREADS)
        r[j] = freivalds_r_i32(seed, j);
}

/* The sum of a row of C - beta * C0 - bias, times r. For all threads of a block together. */
static __device__ uint32_t i32_row_sum(const struct gemm_problem &p, const uint32_t *r,
                                       uint64_t index, uint64_t row, uint32_t *room)
{
    const uint32_t beta = (uint32_t)(int64_t)p.beta;
    const uint32_t *c = (const uint32_t *)p.c + index * p.stride_c + row * p.ldc;
    const uint32_t *c0 = (const uint32_t *)p.c0 + index * p.stride_c0 + row * p.ldc0;
    const uint32_t *bias = (const uint32_t *)p.bias;
    uint32_t sum = 0;
    for (uint64_t j = threadIdx.x; j < p.n; j += LINE_THREADS)
        sum += (c[j] - (beta != 0 ? beta * c0[j] : 0) - (bias != NULL ? bias[j] : 0)) * r[j];
    return block_sum(sum, room);
}

/* A block for several rows. */
__global__ void __launch_bounds__(LINE_THREADS, LINE_BLOCKS)
    i32_judge_kernel(const __grid_constant__ struct gemm_problem p, i32_vectors v, bool aligned)
{
    __shared__ line_room<uint32_t, step_i32> sums;
    __shared__ uint32_t room[LINE_THREADS / 32];
    const uint32_t alpha = (uint32_t)(int64_t)p.alpha;
    const bool plain = (uint32_t)(int64_t)p.beta == 0 && p.bias == NULL;
    const uint64_t first = (uint64_t)blockIdx.x * step_i32::LINES<uint32_t>,
                   row = first + threadIdx.x;
    later_kernels_allow();
    earlier_kernels_wait();
    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        const uint32_t *vectors[1] = {v.r};
        uint32_t sum[1] = {0};
        if (plain)
            line_sums<uint32_t, step_i32>((const uint32_t *)p.c + index * p.stride_c +
                                              first * p.ldc,
                                          p.ldc, p.m - first, p.n, aligned, vectors, sums, sum);
        for (uint64_t i = 0; !plain && i < step_i32::LINES<uint32_t> && first + i < p.m; i++) {
            const uint32_t all = i32_row_sum(p, v.r, index, first + i, room);
            sum[0] = threadIdx.x == i ? all : sum[0];
        }
        if (threadIdx.x >= step_i32::LINES<uint32_t> || row >= p.m)
            continue;
        sum[0] -= alpha * v.expected[index * p.m + row];
        /* Half of 1 is the bound: rounding explains nothing here. */
        const double residual = 2 * fabs((double)(int32_t)sum[0]);
        v.residuals[index * p.m + row] = residual;
        if (residual > 0)
            atomicMax((unsigned long long *)v.residual,
                      (unsigned long long)__double_as_longlong(residual));
    }
}

} // namespace freivalds

enum gemmd_error freivalds_i32_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                      uint64_t seed, double *residuals, void *workspace)
{
    using namespace freivalds;
    const struct gemm_problem &p = *problem;
    const i32_vectors v = i32_place(p, residuals, workspace);
    const matrix<int8_t> b = matrix_of<int8_t>(p.b, p.ldb, p.stride_b, p.transb ? p.n : p.k,
                                               p.transb ? p.k : p.n, p.batch);
    const matrix<int8_t> a = matrix_of<int8_t>(p.a, p.lda, p.stride_a, p.transa ? p.k : p.m,
                                               p.transa ? p.m : p.k, p.batch);
    enum gemmd_error code = p.transa || p.transb ? clear(stream, p, workspace) : GEMMD_OK;
    if (code == GEMMD_OK)
        code = launch(i32_fill_kernel, dim3(grid_blocks(p.n, THREADS)), dim3(THREADS), stream,
                      v.residual, v.r, p.n, seed);
    if (code == GEMMD_OK)
        code = sums_launch(stream, b, operands<step_i32>{{v.r}, {v.br}, 0, p.k, {}}, !p.transb);
    if (code == GEMMD_OK)
        code = sums_launch(stream, a, operands<step_i32>{{v.br}, {v.expected}, p.k, p.m, {}},
                           !p.transa);
    if (code != GEMMD_OK)
        return code;
    return launch_overlapped(
        i32_judge_kernel,
        dim3(grid_blocks_x(p.m, step_i32::LINES<uint32_t>), 1, grid_blocks(p.batch, 1)),
        dim3(LINE_THREADS), 0, stream, p, v,
        matrix_of<uint32_t>(p.c, p.ldc, p.stride_c, p.m, p.n, p.batch).aligned);
}
