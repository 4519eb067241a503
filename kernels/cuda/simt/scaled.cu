/*
 * scaled - products of f8_e4m3 and i8 with scales, for GPUs without a faster kernel for them.
 *
 * A block computes 64 x 64 elements of C, a thread 4 x 4 of them. Tiles of A and B with 32 steps of
 * k pass through shared memory in the type of the sums. Each sum is one chain of fused
 * multiply-adds in the order of k, or with scales of blocks a chain for each 128 steps, which is
 * multiplied by the product of the factors and added in f32. The formulas are those of
 * kernels/cpu/naive.c and kernels/cpu/cpu_epilogue.c.
 */
#include "kernels/cuda/simt/scaled.h"

#include <cuda_fp8.h>

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/launch.cuh"

enum { TILE = 64, DEPTH = 32, SIDE = 16, EACH = TILE / SIDE, THREADS = SIDE * SIDE };
static_assert(GEMM_SCALE_BLOCK % DEPTH == 0, "a tile belongs to one factor");

static __device__ __forceinline__ float widen_operand(__nv_fp8_e4m3 x)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(x.__x, __NV_E4M3)));
}

static __device__ __forceinline__ int32_t widen_operand(int8_t x)
{
    return x;
}

static __device__ __forceinline__ float multiply_add(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}

static __device__ __forceinline__ int32_t multiply_add(int32_t a, int32_t b, int32_t sum)
{
    return sum + a * b;
}

template <typename In> struct sum_type {
    using type = float;
};
template <> struct sum_type<int8_t> {
    using type = int32_t;
};

/* An operand as lines of op(A)'s rows or op(B)'s columns: element (line, k) is at
 * line * line_step + k * k_step. */
template <typename In> struct lines {
    const In *data;
    uint64_t count, line_step, k_step;
};

/* Loads DEPTH steps of k of TILE lines. Neighbouring threads read neighbouring elements. */
template <typename In, typename Sum>
static __device__ __forceinline__ void load_tile(const lines<In> &from, uint64_t first_line,
                                                 uint64_t first_k, uint64_t k,
                                                 Sum (&to)[DEPTH][TILE + 1])
{
    for (unsigned i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
        const bool along_k = from.k_step == 1;
        const unsigned line = along_k ? i / DEPTH : i % TILE, step = along_k ? i % DEPTH : i / TILE;
        const uint64_t l = first_line + line, p = first_k + step;
        to[step][line] = l < from.count && p < k
                             ? widen_operand(from.data[l * from.line_step + p * from.k_step])
                             : Sum(0);
    }
}

/* The factor of a line for the 128 steps of k that `k` belongs to. */
static __device__ __forceinline__ float factor_at(const gemm_scale &scale, uint64_t index,
                                                  uint64_t line, uint64_t k)
{
    return scale
        .data[index * scale.stride + line * scale.step + k / GEMM_SCALE_BLOCK * scale.k_step];
}

template <typename In, typename Out, bool BLOCK>
__global__ void __launch_bounds__(THREADS, 2)
    scaled_kernel(const __grid_constant__ gemm_problem p,
                  const __grid_constant__ epilogue<Out> finish)
{
    using Sum = typename sum_type<In>::type;
    __shared__ Sum a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
    const unsigned x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    const uint64_t column0 = (uint64_t)blockIdx.x * TILE;
    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        const lines<In> rows = {(const In *)p.a + index * p.stride_a, p.m, p.transa ? 1 : p.lda,
                                p.transa ? p.lda : 1};
        const lines<In> columns = {(const In *)p.b + index * p.stride_b, p.n, p.transb ? p.ldb : 1,
                                   p.transb ? 1 : p.ldb};
        for (uint64_t row0 = (uint64_t)blockIdx.y * TILE; row0 < p.m;
             row0 += (uint64_t)gridDim.y * TILE) {
            Sum part[EACH][EACH] = {};
            float sum[EACH][EACH] = {};
            for (uint64_t k = 0; k < p.k; k += DEPTH) {
                __syncthreads();
                load_tile(rows, row0, k, p.k, a);
                load_tile(columns, column0, k, p.k, b);
                __syncthreads();
#pragma unroll 8
                for (unsigned step = 0; step < DEPTH; step++) {
#pragma unroll
                    for (unsigned i = 0; i < EACH; i++)
#pragma unroll
                        for (unsigned j = 0; j < EACH; j++)
                            part[i][j] = multiply_add(a[step][y + i * SIDE], b[step][x + j * SIDE],
                                                      part[i][j]);
                }
                if (BLOCK && ((k + DEPTH) % GEMM_SCALE_BLOCK == 0 || k + DEPTH >= p.k)) {
#pragma unroll
                    for (unsigned i = 0; i < EACH; i++) {
                        const uint64_t row = min(row0 + y + i * SIDE, p.m - 1);
                        const float of_row = factor_at(p.a_scale, index, row, k);
#pragma unroll
                        for (unsigned j = 0; j < EACH; j++) {
                            const uint64_t column = min(column0 + x + j * SIDE, p.n - 1);
                            const float factor =
                                of_row * factor_at(p.b_scale, index, column / GEMM_SCALE_BLOCK, k);
                            sum[i][j] = fmaf((float)part[i][j], factor, sum[i][j]);
                            part[i][j] = 0;
                        }
                    }
                }
            }
            for (unsigned i = 0; i < EACH; i++) {
                const uint64_t row = row0 + y + i * SIDE;
                for (unsigned j = 0; j < EACH; j++) {
                    const uint64_t column = column0 + x + j * SIDE;
                    if (row >= p.m || column >= p.n)
                        continue;
                    if (!BLOCK)
                        sum[i][j] = (float)part[i][j] * factor_at(p.a_scale, index, row, 0) *
                                    factor_at(p.b_scale, index, column, 0);
                    finish.store(index, row, column, sum[i][j]);
                }
            }
        }
    }
}

template <typename In, typename Out>
static enum gemmd_error scaled_run_as(cudaStream_t stream, const gemm_problem &p)
{
    const dim3 grid(grid_blocks_x(p.n, TILE), grid_blocks(p.m, TILE), grid_blocks(p.batch, 1));
    if constexpr (!std::is_same<In, int8_t>::value) {
        if (p.scales == GEMM_SCALES_BLOCK)
            return launch(scaled_kernel<In, Out, true>, grid, dim3(THREADS), stream, p,
                          epilogue<Out>(p));
    }
    return launch(scaled_kernel<In, Out, false>, grid, dim3(THREADS), stream, p, epilogue<Out>(p));
}

template <typename In>
static enum gemmd_error scaled_run_of(cudaStream_t stream, const gemm_problem &p)
{
    return p.out == GEMMD_F16    ? scaled_run_as<In, __half>(stream, p)
           : p.out == GEMMD_BF16 ? scaled_run_as<In, __nv_bfloat16>(stream, p)
                                 : scaled_run_as<In, float>(stream, p);
}

enum gemmd_error scaled_launch(cudaStream_t stream, const struct gemm_problem *problem)
{
    return problem->dtype == GEMMD_I8 ? scaled_run_of<int8_t>(stream, *problem)
                                      : scaled_run_of<__nv_fp8_e4m3>(stream, *problem);
}

template <typename Out>
__global__ void __launch_bounds__(THREADS)
    scaled_epilogue_kernel(const __grid_constant__ gemm_problem p, const float *sums, uint64_t ld,
                           uint64_t stride, const __grid_constant__ epilogue<Out> finish)
{
    const uint64_t column = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= p.n)
        return;
    for (uint64_t index = blockIdx.z; index < p.batch; index += gridDim.z) {
        const float of_column = factor_at(p.b_scale, index, column, 0);
        for (uint64_t row = (uint64_t)blockIdx.y * blockDim.y + threadIdx.y; row < p.m;
             row += (uint64_t)gridDim.y * blockDim.y)
            finish.store(index, row, column,
                         sums[index * stride + row * ld + column] *
                             factor_at(p.a_scale, index, row, 0) * of_column);
    }
}

template <typename Out>
static enum gemmd_error scaled_epilogue_as(cudaStream_t stream, const gemm_problem &p,
                                           const float *sums, uint64_t ld, uint64_t stride)
{
    unsigned width = 1;
    while (width < THREADS && width < p.n)
        width *= 2;
    const dim3 block(width, THREADS / width);
    const dim3 grid(grid_blocks_x(p.n, block.x), grid_blocks(p.m, block.y),
                    grid_blocks(p.batch, 1));
    return launch(scaled_epilogue_kernel<Out>, grid, block, stream, p, sums, ld, stride,
                  epilogue<Out>(p));
}

enum gemmd_error scaled_epilogue_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                        const float *sums, uint64_t ld, uint64_t stride)
{
    return problem->out == GEMMD_F16
               ? scaled_epilogue_as<__half>(stream, *problem, sums, ld, stride)
           : problem->out == GEMMD_BF16
               ? scaled_epilogue_as<__nv_bfloat16>(stream, *problem, sums, ld, stride)
               : scaled_epilogue_as<float>(stream, *problem, sums, ld, stride);
}
