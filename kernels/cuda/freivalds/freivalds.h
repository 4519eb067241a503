/*
 * freivalds.h - the check of a product on the GPU that has computed it (kernels/freivalds.h).
 *
 * Sums are computed in f64 (modulo 2^32 for i8 to i32). A, C and C0 are read once each, and so is
 * every B.
 */
#ifndef KERNELS_CUDA_FREIVALDS_FREIVALDS_H
#define KERNELS_CUDA_FREIVALDS_FREIVALDS_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

struct operation_small_check;

#ifdef __cplusplus
extern "C" {
#endif

/* freivalds_check on a stream. The problem's pointers are those of memory that the device can read,
 * aligned to the elements. */
enum gemmd_error freivalds_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                  uint64_t seed, double *residuals, void *workspace);

/* The same for a product of i8 with results of i32 only, exact modulo 2^32. */
enum gemmd_error freivalds_i32_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                      uint64_t seed, double *residuals, void *workspace);

/* freivalds_check_small on a stream. The list is in pinned host memory. */
enum gemmd_error freivalds_small_launch(cudaStream_t stream, struct operation_small_check *checks,
                                        uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
