/*
 * fault_kernels.h - kernels for tests of faults: fault_kernels.cu has them for a GPU, and
 * simulated_cuda.c for the simulated one. Both enqueue on the stream and return at once.
 */
#ifndef TESTS_FAULTS_FAULT_KERNELS_H
#define TESTS_FAULTS_FAULT_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Traps, which is a sticky error of the CUDA context. */
void fault_kernel_trap(cudaStream_t stream);
/* Runs for a time. */
void fault_kernel_busy(cudaStream_t stream, int64_t ms);

#ifdef __cplusplus
}
#endif
#endif
