/*
 * f32 matrices in three parts of bf16 (launch.h).
 *
 * Each part is what is left of the number, rounded to bf16: 8 bits and a sign each, together the 24
 * bits of an f32 exactly, and each at most 2^-9 of the one before. Numbers are multiplied by 2^16
 * first, so that the last bit of the smallest one is one that bf16 has. A number that is infinite,
 * no number, or too large for that is infinite or no number in its first part and 0 in the others.
 */
#include <cuda_bf16.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/launch.h"

enum { THREADS = 256, COUNT = 8 /* numbers that a thread splits at once */, PARTS = 3 };

union piece {
    __nv_bfloat16 numbers[COUNT];
    uint4 whole;
};

static __device__ void split(float number, __nv_bfloat16 (&parts)[PARTS])
{
    const float scaled = number * 0x1p16f;
    parts[0] = __float2bfloat16_rn(scaled);
    const float first = __bfloat162float(parts[0]);
    const float rest = isfinite(first) ? scaled - first : 0;
    parts[1] = __float2bfloat16_rn(rest);
    parts[2] = __float2bfloat16_rn(rest - __bfloat162float(parts[1]));
}

/* Rows begin at multiples of 16 bytes in each part; `ALIGNED`: in the operand too. */
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    split_kernel(const __grid_constant__ struct realign_job job)
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
            union piece pieces[PARTS];
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++) {
                __nv_bfloat16 parts[PARTS];
                split(numbers[i], parts);
#pragma unroll
                for (unsigned part = 0; part < PARTS; part++)
                    pieces[part].numbers[i] = parts[part];
            }
#pragma unroll
            for (unsigned part = 0; part < PARTS; part++)
                *(uint4 *)(to + part * job.stride_to) = pieces[part].whole;
        }
}

enum gemmd_error split_launch(cudaStream_t stream, const struct realign_job *job)
{
    const dim3 grid(grid_blocks_x(job->width, THREADS * COUNT), grid_blocks(job->rows, 1),
                    grid_blocks(job->batch, 1));
    const bool aligned = (uintptr_t)job->from % 16 == 0 && job->ld_from % 4 == 0 &&
                         (job->batch == 1 || job->stride_from % 4 == 0);
    return launch(aligned ? split_kernel<true> : split_kernel<false>, grid, dim3(THREADS), stream,
                  *job);
}
