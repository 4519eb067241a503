/* The kernels of f16. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

extern "C" const sm90_kernel sm90_kernels_f16[] = {SM90_ROWS_16BIT(sm90::F16, "f16"),
                                                   sm90_kernel{}};
