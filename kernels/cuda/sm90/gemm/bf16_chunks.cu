/* The kernels of bf16 with a chain for each chunk of k. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT_CHUNKS(SM90_ROW_HERE, BF16, "bf16")
