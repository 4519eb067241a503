/* The table of the kernels of f16, which f16_*.cu compile. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT(SM90_ROW_ELSEWHERE, F16, "f16")

extern "C" const sm90_kernel sm90_kernels_f16[] = {SM90_16BIT(SM90_ROW, F16, "f16") sm90_kernel{}};
