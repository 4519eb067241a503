/*
 * Copies between host memory and device memory, many in one launch: blocks of rows, and spans of
 * bytes, which are the operands and results of small problems. The copies are bound by the bus: a
 * thread has several loads in flight, which hides the latency of host memory.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"

enum { MOVE_THREADS = 128, MOVE_LOADS = 4 };

/* Copies the bytes from `begin` on, up to the last complete unit, and returns the end of this unit.
 * `begin` and both addresses are multiples of the unit. Called by all blocks of a row of the grid.
 */
template <typename Unit>
static __device__ uint64_t move_units(char *to_bytes, const char *from_bytes, uint64_t begin,
                                      uint64_t bytes)
{
    const Unit *from = (const Unit *)from_bytes;
    Unit *to = (Unit *)to_bytes;
    const uint64_t count = bytes / sizeof(Unit), stride = (uint64_t)gridDim.x * MOVE_THREADS;
    for (uint64_t i = begin / sizeof(Unit) + (uint64_t)blockIdx.x * MOVE_THREADS + threadIdx.x;
         i < count; i += MOVE_LOADS * stride) {
        Unit units[MOVE_LOADS];
#pragma unroll
        for (unsigned j = 0; j < MOVE_LOADS; j++)
            if (i + j * stride < count)
                units[j] = from[i + j * stride];
#pragma unroll
        for (unsigned j = 0; j < MOVE_LOADS; j++)
            if (i + j * stride < count)
                to[i + j * stride] = units[j];
    }
    return count * sizeof(Unit);
}

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

/* A row of blocks copies one span. The bytes after the last complete unit are copied one by one. */
__global__ void __launch_bounds__(MOVE_THREADS)
    move_spans_kernel(const __grid_constant__ struct span_moves moves)
{
    const struct span_move &move = moves.list[blockIdx.y];
    const char *from = (const char *)move.from;
    char *to = (char *)move.to;
    const uint64_t alignment = (uint64_t)(uintptr_t)from | (uint64_t)(uintptr_t)to;
    uint64_t moved = 0;
    if (alignment % 16 == 0)
        moved = move_units<uint4>(to, from, 0, move.bytes);
    else if (alignment % 4 == 0)
        moved = move_units<uint32_t>(to, from, 0, move.bytes);
    else if (alignment % 2 == 0)
        moved = move_units<uint16_t>(to, from, 0, move.bytes);
    move_units<uint8_t>(to, from, moved, move.bytes);
}

enum gemmd_error move_spans_launch(cudaStream_t stream, const struct span_moves *moves)
{
    static_assert(sizeof *moves <= 4096, "a launch's parameters");
    uint64_t most = 0;
    for (uint32_t i = 0; i < moves->count; i++)
        most = moves->list[i].bytes > most ? moves->list[i].bytes : most;
    const uint64_t wide =
        (most + 16 * MOVE_LOADS * MOVE_THREADS - 1) / (16 * MOVE_LOADS * MOVE_THREADS);
    const dim3 grid((unsigned)(wide < 1 ? 1 : wide < 64 ? wide : 64), moves->count);
    return launch(move_spans_kernel, grid, dim3(MOVE_THREADS), stream, *moves);
}
