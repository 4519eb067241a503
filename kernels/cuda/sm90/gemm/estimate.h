/*
 * estimate.h - the model of the GPU behind sm90_estimate_us, for products whose left operand is not
 * a matrix in memory.
 */
#ifndef KERNELS_CUDA_SM90_GEMM_ESTIMATE_H
#define KERNELS_CUDA_SM90_GEMM_ESTIMATE_H

#include "kernels/cuda/sm90/sm90.h"

/* As sm90_estimate_us, for a product whose left operand is patches of images. `operands`: the
 * elements of A and B that are read from device memory. lda: the distance of the pixels at which
 * neighbouring patches start. Pure. */
double sm90_estimate_patches_us(const struct sm90_kernel *kernel,
                                const struct gemm_problem *problem, const struct sm90_card *card,
                                double operands);

#endif
