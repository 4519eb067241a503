/* The kernels of bf16. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

extern "C" const sm90_kernel sm90_kernels_bf16[] = {SM90_ROWS_16BIT(sm90::BF16, "bf16"),
                                                    sm90_kernel{}};
