/*
 * freivalds_i32.cuh - the check of i8 products to i32, exact modulo 2^32 (kernels/cpu/cpu_freivalds.c).
 */
#ifndef KERNELS_CUDA_FREIVALDS_FREIVALDS_I32_CUH
#define KERNELS_CUDA_FREIVALDS_FREIVALDS_I32_CUH

#include "kernels/cuda/freivalds/freivalds.h"

namespace freivalds
{

/* As freivalds_launch. */
enum gemmd_error i32_launch(cudaStream_t stream, const struct gemm_problem &problem, uint64_t seed,
                            double *residuals, void *workspace);

} // namespace freivalds

#endif
