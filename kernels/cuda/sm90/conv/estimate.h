/*
 * estimate.h - how long a tile takes for a convolution: the model of products
 * (kernels/cuda/sm90/gemm/model.h), whose left operand is patches of images, with constants of
 * convolutions. All functions are pure and ignore pointers.
 */
#ifndef KERNELS_CUDA_SM90_CONV_ESTIMATE_H
#define KERNELS_CUDA_SM90_CONV_ESTIMATE_H

#include "kernels/cuda/sm90/conv/sm90_conv.h"
#include "kernels/cuda/sm90/gemm/model.h"

/* The convolution as the product that the kernels compute, without pointers to operands. lda: the
 * distance of the pixels at which neighbouring patches start. */
struct gemm_problem sm90_conv_product(const struct sm90_conv *conv);

/* The constants for a type of operands. */
const struct sm90_rates *sm90_conv_rates(enum gemmd_dtype dtype);

/* The time in microseconds. */
double sm90_conv_estimate_us(const struct sm90_kernel *kernel, const struct sm90_conv *conv,
                             const struct sm90_rates *rates, const struct sm90_card *card);

#endif
