/*
 * cuda_error.h - gemmd's error code for an error of the CUDA runtime.
 *
 * This header includes no header of CUDA. The function exists in builds with CUDA only. Pure, any
 * thread.
 */
#ifndef KERNELS_CUDA_ERROR_H
#define KERNELS_CUDA_ERROR_H

#include <gemmd/errors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The error code for a cudaError_t: GEMMD_OK for cudaSuccess; GEMMD_ERR_DEVICE_LOST for a sticky
 * error, after which the context is unusable until the process ends (illegal address, failed
 * launch, uncorrectable memory error and others); GEMMD_ERR_OUT_OF_MEMORY; GEMMD_ERR_INTERNAL for
 * all others. */
enum gemmd_error cuda_error_code(int cuda_error);

#ifdef __cplusplus
}
#endif
#endif
