/*
 * estimate.h - the model of the GPU behind sm90_estimate_us, for products whose left operand is not
 * a matrix in memory.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_ESTIMATE_H
#define KERNELS_CUDA_SM90_GEMM_ESTIMATE_H

#include "kernels/cuda/sm90/sm90.h"

/* As sm90_estimate_us, for a product that reads `operands` elements of A and B from device memory,
 * instead of (m + n) * k * batch. Pure. */
double sm90_estimate_reading_us(const struct sm90_kernel *kernel,
                                const struct gemm_problem *problem, uint32_t multiprocessors,
                                double operands);

#endif
