/* Operands of i8 laid out as tensor cores take them, and f8 widened (launch.h). */
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"

enum {
    THREADS = 256,
    VECTOR = 16, /* bytes that a thread writes at once */
    TILE = 64,   /* bytes, of k and of rows, that a block transposes at once */
};

union vector {
    uint8_t bytes[VECTOR];
    uint4 whole;
};

__global__ void __launch_bounds__(THREADS) pad_kernel(const __grid_constant__ struct pack_job job)
{
    const uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    if (first >= job.padded_k)
        return;
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t row = blockIdx.y; row < job.padded_rows; row += gridDim.y) {
            const uint8_t *from = (const uint8_t *)job.from + index * job.stride + row * job.ld;
            uint8_t *to =
                (uint8_t *)job.to + (index * job.padded_rows + row) * job.padded_k + first;
            union vector v;
#pragma unroll
            for (unsigned i = 0; i < VECTOR; i++)
                v.bytes[i] = row < job.rows && first + i < job.k ? from[first + i] : 0;
            *(uint4 *)to = v.whole;
        }
}

__global__ void __launch_bounds__(THREADS)
    transpose_kernel(const __grid_constant__ struct pack_job job)
{
    __shared__ uint8_t tile[TILE][TILE + 4]; // [k][row]
    const uint64_t first_k = (uint64_t)blockIdx.x * TILE;
    const unsigned column = threadIdx.x % TILE, line = threadIdx.x / TILE;
    const unsigned per_row = TILE / VECTOR;
    const unsigned out_row = threadIdx.x / per_row, out_k = threadIdx.x % per_row * VECTOR;

    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z) {
        const uint8_t *from = (const uint8_t *)job.from + index * job.stride; // [k, rows]
        uint8_t *to =
            (uint8_t *)job.to + index * job.padded_rows * job.padded_k; // [padded_rows, padded_k]
        for (uint64_t first_row = (uint64_t)blockIdx.y * TILE; first_row < job.padded_rows;
             first_row += (uint64_t)gridDim.y * TILE) {
#pragma unroll
            for (unsigned i = 0; i < TILE; i += THREADS / TILE) {
                const uint64_t k = first_k + line + i, row = first_row + column;
                tile[line + i][column] =
                    k < job.k && row < job.rows ? from[k * job.ld + row] : (uint8_t)0;
            }
            __syncthreads();
            if (first_row + out_row < job.padded_rows && first_k + out_k < job.padded_k) {
                union vector v;
#pragma unroll
                for (unsigned i = 0; i < VECTOR; i++)
                    v.bytes[i] = tile[out_k + i][out_row];
                *(uint4 *)(to + (first_row + out_row) * job.padded_k + first_k + out_k) = v.whole;
            }
            __syncthreads();
        }
    }
}

static_assert(THREADS % TILE == 0 && THREADS * VECTOR == TILE * TILE,
              "the threads of a block read and write one tile");

enum gemmd_error pack_launch(cudaStream_t stream, const struct pack_job *job)
{
    if (job->along_k) {
        const dim3 grid(grid_blocks_x(job->padded_k, THREADS * VECTOR),
                        grid_blocks(job->padded_rows, 1), grid_blocks(job->batch, 1));
        return launch(pad_kernel, grid, dim3(THREADS), stream, *job);
    }
    const dim3 grid(grid_blocks_x(job->padded_k, TILE), grid_blocks(job->padded_rows, TILE),
                    grid_blocks(job->batch, 1));
    return launch(transpose_kernel, grid, dim3(THREADS), stream, *job);
}

__global__ void __launch_bounds__(THREADS)
    widen_kernel(const __grid_constant__ struct widen_job job)
{
    const uint64_t column = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= job.length)
        return;
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t line = blockIdx.y; line < job.lines; line += gridDim.y) {
            const uint8_t *from = (const uint8_t *)job.from + index * job.stride + line * job.ld;
            __half *to = (__half *)job.to + (index * job.lines + line) * job.ld_to;
            to[column] = __half(__nv_cvt_fp8_to_halfraw(from[column], __NV_E4M3));
        }
}

enum gemmd_error widen_launch(cudaStream_t stream, const struct widen_job *job)
{
    const dim3 grid(grid_blocks_x(job->length, THREADS), grid_blocks(job->lines, 1),
                    grid_blocks(job->batch, 1));
    return launch(widen_kernel, grid, dim3(THREADS), stream, *job);
}
