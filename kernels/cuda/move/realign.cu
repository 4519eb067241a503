/* Copies matrices to other leading dimensions and strides (move.h). */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"

enum { THREADS = 256, VECTOR = 16 /* bytes that a thread writes at once */ };

template <typename Unit> union piece {
    Unit units[VECTOR / sizeof(Unit)];
    uint4 whole;
};

/* A thread writes the elements of a row that lie between two multiples of 16 bytes of the
 * destination. */
template <typename Unit>
__global__ void __launch_bounds__(THREADS)
    realign_kernel(const __grid_constant__ struct realign_job job)
{
    constexpr uint64_t COUNT = VECTOR / sizeof(Unit);
    for (uint64_t index = blockIdx.z; index < job.batch; index += gridDim.z)
        for (uint64_t row = blockIdx.y; row < job.rows; row += gridDim.y) {
            const Unit *from = (const Unit *)job.from + index * job.stride_from + row * job.ld_from;
            Unit *to = (Unit *)job.to + index * job.stride_to + row * job.ld_to;
            const uint64_t before = (uintptr_t)to % VECTOR / sizeof(Unit);
            const uint64_t piece_number = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
            const int64_t first = (int64_t)(piece_number * COUNT) - (int64_t)before;
            if (first >= (int64_t)job.width)
                continue;
            const bool whole = first >= 0 && first + (int64_t)COUNT <= (int64_t)job.width;
            union piece<Unit> v;
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++) {
                const int64_t column = first + i;
                v.units[i] = column >= 0 && column < (int64_t)job.width ? from[column] : (Unit)0;
            }
            if (whole) {
                *(uint4 *)(to + first) = v.whole;
                continue;
            }
#pragma unroll
            for (unsigned i = 0; i < COUNT; i++) {
                const int64_t column = first + i;
                if (column >= 0 && column < (int64_t)job.width)
                    to[column] = v.units[i];
            }
        }
}

enum gemmd_error realign_launch(cudaStream_t stream, const struct realign_job *job)
{
    const uint64_t pieces = job->width * job->element_bytes / VECTOR + 2;
    const dim3 grid(grid_blocks_x(pieces, THREADS), grid_blocks(job->rows, 1),
                    grid_blocks(job->batch, 1));
    switch (job->element_bytes) {
    case 1:
        return launch(realign_kernel<uint8_t>, grid, dim3(THREADS), stream, *job);
    case 2:
        return launch(realign_kernel<uint16_t>, grid, dim3(THREADS), stream, *job);
    default:
        return launch(realign_kernel<uint32_t>, grid, dim3(THREADS), stream, *job);
    }
}
