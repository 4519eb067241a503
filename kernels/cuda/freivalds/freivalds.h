/*
 * freivalds.h - the check of a product on the GPU that computed it (kernels/freivalds.h).
 *
 * The check is that of the host, with the same r for the same seed, the same bound and the same
 * decisions. Sums are computed in f64 (modulo 2^32 for i8 to i32) in another order, so that the
 * residual may differ by what the check's own rounding explains, which the bound includes. A, B, C
 * and C0 are read once each.
 */
#ifndef KERNELS_CUDA_FREIVALDS_FREIVALDS_H
#define KERNELS_CUDA_FREIVALDS_FREIVALDS_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FREIVALDS_HEADER_BYTES = 64 }; /* of the workspace: the residual and sums over all rows */

/* The size of the workspace, which starts at a multiple of 8 bytes: for each
 * element of r 8 bytes, and in every problem 24 for each k and 16 for each row. i8 to i32 takes 4
 * bytes for each of them. False: the size overflows. Pure. */
bool freivalds_workspace_bytes(const struct gemm_problem *problem, uint64_t *out);

/* Enqueues the check on the stream, after the product. The problem's pointers are those of memory
 * that the device can read, aligned to the elements, and act is none. The residual, a double, is
 * then in the first 8 bytes of the workspace; a residual up to 1 passes. */
enum gemmd_error freivalds_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                  uint64_t seed, void *workspace);

#ifdef __cplusplus
}
#endif
#endif
