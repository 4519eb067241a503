/*
 * ring.cuh - a position in a ring of buffers that are guarded by barriers.
 */
#ifndef KERNELS_CUDA_SM90_RING_CUH
#define KERNELS_CUDA_SM90_RING_CUH

#include <stdint.h>

namespace sm90
{

/* A position in a ring of STAGES buffers: the number of the buffer, and the parity (odd or even) of
 * its current use, by which barriers are waited for. `uses` is the number of positions before. */
template <uint32_t STAGES> struct ring {
    uint32_t stage, parity;

    __device__ __forceinline__ explicit ring(uint32_t uses)
        : stage(uses % STAGES), parity(uses / STAGES & 1)
    {
    }
    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

} // namespace sm90

#endif
