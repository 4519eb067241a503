/*
 * arguments.h - the parameters of the convolution kernels of sm_90a. launch.c fills the struct in,
 * and conv.cuh reads it.
 */
#ifndef KERNELS_CUDA_SM90_CONV_ARGUMENTS_H
#define KERNELS_CUDA_SM90_CONV_ARGUMENTS_H

#include "kernels/cuda/sm90/gemm/arguments.h"

struct sm90_conv_arguments {
    /* The product of the pixels' patches [m, k] with the filters [k, n]. x and x_end are im2col
     * maps of X, and y and y_end have the dimensions channel, filter and tap. */
    struct sm90_arguments product;
    uint32_t out_pixels, out_width; /* of an image of Y */
    int32_t stride_h, stride_w, pad_top, pad_left;
    uint32_t taps_h, taps_w, dilation_h, dilation_w;
    uint32_t last_further; /* rows that the last row of taps lies further down */
    uint32_t tap_tiles;    /* tiles of k in a tap */
};

#endif
