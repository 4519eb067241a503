/* The table of the kernels of bf16, which bf16_*.cu compile. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT(SM90_ROW_ELSEWHERE, BF16, "bf16")

extern "C" const sm90_kernel sm90_kernels_bf16[] = {SM90_16BIT(SM90_ROW, BF16, "bf16")
                                                        sm90_kernel{}};
