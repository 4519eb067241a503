/*
 * cuda_error.h - what an error of the CUDA runtime means for gemmd.
 *
 * Plain C without CUDA's headers, so that whoever has a cudaError_t can ask. Implemented in
 * builds with CUDA only. Pure functions, any thread.
 */
#ifndef KERNELS_CUDA_ERROR_H
#define KERNELS_CUDA_ERROR_H

#include <gemmd/errors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* GEMMD_OK for cudaSuccess; GEMMD_ERR_DEVICE_LOST for errors that leave the context unusable until
 * the process ends ("sticky": illegal address, failed launch, uncorrectable memory error ...);
 * GEMMD_ERR_OUT_OF_MEMORY; GEMMD_ERR_INTERNAL for all others. Takes a cudaError_t. */
enum gemmd_error cuda_error_code(int cuda_error);

#ifdef __cplusplus
}
#endif
#endif
