/*
 * units.cuh - a copy of bytes by a row of blocks. Each thread has several loads in flight, which
 * hides the latency of host memory.
 */
#ifndef KERNELS_CUDA_MOVE_UNITS_CUH
#define KERNELS_CUDA_MOVE_UNITS_CUH

#include <cstdint>

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

#endif
