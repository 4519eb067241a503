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

/* Reads a state as `stored` does if `there`, and returns `otherwise` if not. There is no branch
 * around the load, so that several loads of a thread are issued before the first is used. */
template <typename State>
static __device__ __forceinline__ State stored_if(bool there, const State *from, State otherwise)
{
    union words {
        State state;
        uint32_t word[sizeof(State) / 4];
        __device__ words()
        {
        }
    } read;
    read.state = otherwise;
#pragma unroll
    for (unsigned i = 0; i < sizeof(State) / 4; i++)
        asm volatile("{\n"
                     ".reg .pred is_there;\n"
                     "setp.ne.u32 is_there, %2, 0;\n"
                     "@is_there ld.global.cg.u32 %0, [%1];\n"
                     "}"
                     : "+r"(read.word[i])
                     : "l"((const uint32_t *)(const void *)from + i), "r"((uint32_t)there)
                     : "memory");
    return read.state;
}

/* Called by all threads of a block that has stored the state of its chunk. Returns whether this
 * block is the last one of a row or tile to do so; it then sees the states of all chunks. `arrived`
 * is the counter of the row or tile, zero at first. */
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
