/* The kernels of f16 with the largest tiles. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT_WIDE(SM90_ROW_HERE, F16, "f16")
