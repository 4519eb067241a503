/*
 * Copies of spans of bytes between host memory and device memory, many in one launch: the operands
 * and results of small problems. As rows.cu, for spans of different lengths.
 */
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda/move/units.cuh"

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
