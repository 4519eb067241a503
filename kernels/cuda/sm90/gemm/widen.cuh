/*
 * widen.cuh - numbers of f8_e4m3 as f16 (PTX ISA: cvt.rn.f16x2.e4m3x2). Exact.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_WIDEN_CUH
#define KERNELS_CUDA_SM90_GEMM_WIDEN_CUH

#include <stdint.h>

namespace sm90
{

/* Four numbers of f8 as f16: the first two and the last two. (For a shift in place of the two
 * halves the compiler would emit a shift.) */
__device__ __forceinline__ void widen_four(uint32_t four, uint32_t &first, uint32_t &last)
{
    asm("{\n"
        ".reg .b16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, low;\n"
        "cvt.rn.f16x2.e4m3x2 %1, high;\n"
        "}"
        : "=r"(first), "=r"(last)
        : "r"(four));
}

} // namespace sm90

#endif
