/*
 * Copies of blocks of rows between host memory and device memory, all in one launch. The copies are
 * bound by the bus: a thread has four loads in flight.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda/move/units.cuh"

/* A row of blocks copies one block of rows. */
__global__ void __launch_bounds__(MOVE_THREADS)
    move_rows_kernel(const __grid_constant__ struct gemm_moves moves)
{
    const struct gemm_move &move = moves.list[blockIdx.y];
    const char *from = (const char *)move.from;
    char *to = (char *)move.to;
    const uint64_t alignment = (uint64_t)(uintptr_t)from | (uint64_t)(uintptr_t)to |
                               moves.from_pitch | moves.to_pitch | moves.row_bytes;
    for (uint64_t row = blockIdx.z; row < move.rows; row += gridDim.z) {
        const char *from_row = from + row * moves.from_pitch;
        char *to_row = to + row * moves.to_pitch;
        if (alignment % 16 == 0)
            move_units<uint4>(to_row, from_row, 0, moves.row_bytes);
        else if (alignment % 4 == 0)
            move_units<uint32_t>(to_row, from_row, 0, moves.row_bytes);
        else if (alignment % 2 == 0)
            move_units<uint16_t>(to_row, from_row, 0, moves.row_bytes);
        else
            move_units<uint8_t>(to_row, from_row, 0, moves.row_bytes);
    }
}

enum gemmd_error move_rows_launch(cudaStream_t stream, const struct gemm_moves *moves)
{
    static_assert(sizeof *moves <= 4096, "a launch's parameters");
    uint64_t most = 1;
    for (uint32_t i = 0; i < moves->count; i++)
        most = moves->list[i].rows > most ? moves->list[i].rows : most;
    const uint64_t wide =
        (moves->row_bytes + 16 * MOVE_LOADS * MOVE_THREADS - 1) / (16 * MOVE_LOADS * MOVE_THREADS);
    const dim3 grid((unsigned)(wide < 64 ? wide : 64), moves->count, grid_blocks(most, 1));
    return launch(move_rows_kernel, grid, dim3(MOVE_THREADS), stream, *moves);
}
