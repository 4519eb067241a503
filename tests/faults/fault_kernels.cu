#include "tests/faults/fault_kernels.h"

static __global__ void trap()
{
    asm volatile("trap;");
}

static __device__ __forceinline__ uint64_t now_ns()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void busy(uint64_t ns)
{
    const uint64_t begun = now_ns();
    while (now_ns() - begun < ns)
        __nanosleep(1000000);
}

void fault_kernel_trap(cudaStream_t stream)
{
    trap<<<1, 1, 0, stream>>>();
}

void fault_kernel_busy(cudaStream_t stream, int64_t ms)
{
    busy<<<1, 1, 0, stream>>>((uint64_t)ms * 1000000u);
}
