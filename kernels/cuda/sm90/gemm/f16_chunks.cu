/* The kernels of f16 with a chain for each chunk of k. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT_CHUNKS(SM90_ROW_HERE, F16, "f16")
