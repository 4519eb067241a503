/* The kernels of f16 with smaller tiles and one chain for each sum, or chains that are added in
 * f32. */
#include "kernels/cuda/sm90/gemm/table_16bit.cuh"

SM90_16BIT_CHAINS(SM90_ROW_HERE, F16, "f16")
