/*
 * cluster.cuh - how the blocks of a cluster wait for one another (PTX ISA: barrier.cluster
 * 9.7.13.4, mbarrier 9.7.13.15).
 */
#ifndef KERNELS_CUDA_SM90_CLUSTER_CUH
#define KERNELS_CUDA_SM90_CLUSTER_CUH

#include "kernels/cuda/ptx.cuh"

namespace cluster
{

/* Initialises a barrier for `arrivals` arrivals a phase, by one thread of each block. Other blocks
 * may use the barrier once they have called wait_for_blocks after arrive. */
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    ptx::mbarrier_init(barrier, arrivals);
    ptx::mbarrier_init_fence();
}

/* Tells the other blocks that this thread has come here. Orders nothing but the initialisation of
 * barriers. Every thread of the cluster calls arrive and then wait_for_blocks, once each. */
__device__ __forceinline__ void arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

/* Waits until every thread of the cluster has arrived. */
__device__ __forceinline__ void wait_for_blocks()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* Waits until other blocks of the cluster have completed a phase of a barrier of this block. The
 * calling thread then sees what those blocks stored before (ptx::cluster_store). For a phase that
 * this block completes itself, ptx::mbarrier_wait is enough. */
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    uint32_t done = 0;
    for (uint32_t tries = 1; !done; tries++) {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
        if (tries == ptx::WAIT_TRIES_MAX) /* a fault of the kernel, as in ptx::mbarrier_wait */
            asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(tries) : "memory");
    }
}

} // namespace cluster

#endif
