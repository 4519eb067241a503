/*
 * chunks.cuh - long reductions in chunks: each block stores the state of its chunk, and the block
 * that ends last joins the states of all chunks.
 */
#ifndef KERNELS_CUDA_REDUCE_CHUNKS_CUH
#define KERNELS_CUDA_REDUCE_CHUNKS_CUH

#include <stdint.h>

namespace reduce
{

/* Reads a state that another block has stored, from the L2 cache. */
template <typename State> static __device__ __forceinline__ State stored(const State *from)
{
    union words {
        State state;
        uint32_t word[sizeof(State) / 4];
        __device__ words()
        {
        }
    } read;
#pragma unroll
    for (unsigned i = 0; i < sizeof(State) / 4; i++)
        read.word[i] = __ldcg((const uint32_t *)(const void *)from + i);
    return read.state;
}

/* Waits until all chunks of a row or tile have been stored, in the block that ends last. Returns
 * whether this block is it. */
static __device__ bool arrives_last(uint32_t *arrived, uint32_t chunks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(arrived, 1) == chunks - 1;
    __syncthreads();
    __threadfence();
    return last;
}

} // namespace reduce

#endif
