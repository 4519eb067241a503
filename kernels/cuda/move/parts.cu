/* Decomposes f32 matrices into three parts of bf16 (move.h, parts.cuh). */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda/move/parts.cuh"

using f32_parts::PARTS;

enum { THREADS = 256, COUNT = 8 /* numbers that a thread decomposes at once */ };

/* The rows of each part start at multiples of 16 bytes. ALIGNED: the rows of the operand do so too.
 */
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    parts_kernel(const __grid_constant__ struct realign_job job)
{
    const uint64_t first = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * COUNT;
    if (first >= job.width)
        return;
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t row = blockIdx.y; row < job.rows; row += gridDim.y) {
            const float *from =
                (const float *)job.from + index * job.stride_from + row * job.ld_from + first;
            __nv_bfloat16 *to =
                (__nv_bfloat16 *)job.to + index * PARTS * job.stride_to + row * job.ld_to + first;
            float numbers[COUNT];
            if (ALIGNED && first + COUNT <= job.width) {
                *(float4 *)numbers = *(const float4 *)from;
                *(float4 *)(numbers + 4) = *(const float4 *)(from + 4);
            } else {
#pragma unroll
                for (unsigned i = 0; i < COUNT; i++)
                    numbers[i] = first + i < job.width ? from[i] : 0;
            }
            uint32_t pieces[COUNT / 2][PARTS];
#pragma unroll
            for (unsigned i = 0; i < COUNT / 2; i++)
                f32_parts::decompose(numbers[2 * i], numbers[2 * i + 1], pieces[i]);
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++)
                *(uint4 *)(to + part * job.stride_to) =
                    make_uint4(pieces[0][part], pieces[1][part], pieces[2][part], pieces[3][part]);
        }
}

enum gemmd_error parts_launch(cudaStream_t stream, const struct realign_job *job)
{
    const dim3 grid(grid_blocks_x(job->width, THREADS * COUNT), grid_blocks(job->rows, 1),
                    grid_blocks(job->batch, 1));
    const bool aligned = (uintptr_t)job->from % 16 == 0 && job->ld_from % 4 == 0 &&
                         (job->batch == 1 || job->stride_from % 4 == 0);
    return launch(aligned ? parts_kernel<true> : parts_kernel<false>, grid, dim3(THREADS), stream,
                  *job);
}
