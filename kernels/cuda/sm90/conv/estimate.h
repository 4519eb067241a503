/*
 * estimate.h - the model of the GPU that tiles of convolutions are chosen by.
 *
 * The model is the one of products (kernels/cuda/sm90/gemm/model.h) with terms of its own for the
 * patches of images, and constants that were fitted before tables had the times of all tiles of
 * convolutions.
 */
#ifndef KERNELS_CUDA_SM90_CONV_ESTIMATE_H
#define KERNELS_CUDA_SM90_CONV_ESTIMATE_H

#include "kernels/cuda/sm90/sm90.h"

/* The time in microseconds of a convolution as a product, whose left operand is patches of images.
 * `operands`: the elements of both operands that are read from device memory. lda: the distance of
 * the pixels at which neighbouring patches start. Pure; pointers are ignored. */
double sm90_conv_estimate_us(const struct sm90_kernel *kernel, const struct gemm_problem *product,
                             const struct sm90_card *card, double operands);

#endif
