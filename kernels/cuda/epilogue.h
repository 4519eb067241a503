/*
 * epilogue.h - the epilogue as a kernel of its own, for sums that a library computed.
 */
#ifndef KERNELS_CUDA_EPILOGUE_H
#define KERNELS_CUDA_EPILOGUE_H

#include <cuda_runtime_api.h>

#include "kernels/gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the epilogue on the stream: from `sums`, whose type is
 * dtype_accumulator(problem->dtype), to C. `sums` is [m, n] for each problem of the batch; rows are
 * `ld` elements apart and problems `stride` elements. The sums may lie in C itself if C has their
 * type, with C's own ld and stride.
 */
enum gemmd_error epilogue_launch(cudaStream_t stream, const struct gemm_problem *problem,
                                 const void *sums, uint64_t ld, uint64_t stride);

#ifdef __cplusplus
}
#endif
#endif
