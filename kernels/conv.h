/*
 * conv.h - the problem of the convolution kernels (operation_conv2d).
 *
 *   Y = act(alpha * conv(X, W) + bias)
 *
 * proto/conv_shape.h has the formula, the sizes and the layouts. In this folder a tap is one of the
 * r x s positions of a filter, a pixel is one position of an image with all its channels, and a
 * plane is one channel of an image with all its positions. The bias has one element for each
 * filter. The epilogue, which is everything after the sum, is computed in the accumulator's type
 * (dtype_accumulator) and rounded once to `out`. 32-bit integer results wrap modulo 2^32.
 *
 * The elements of padding are zeros that take part in the sum: an infinite or NaN weight at a
 * padded position makes the result NaN, as in IEEE arithmetic.
 *
 * The bits of an image of Y depend on the same image of X, on W and on the bias, and never on the
 * other images or their number.
 *
 * X, Y and W are contiguous, except that w_leading may set the rows of W apart. All pointers are in
 * the memory of the context's backend. On CUDA they and the workspace start at multiples of 256
 * bytes, and a kernel may read all of an aligned block of 16 bytes that contains a byte of an
 * operand; on the CPU they are aligned to their elements, and the workspace to 64 bytes. Y overlaps
 * no operand. A kernel allocates nothing.
 */
#ifndef KERNELS_CONV_H
#define KERNELS_CONV_H

#include <gemmd/dtypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/conv_shape.h"
#include "proto/error.h"

struct conv_problem {
    enum gemmd_dtype dtype, out;
    enum gemm_precision precision;
    enum gemm_act act;
    struct conv_shape shape; /* settled (conv_shape_settle) */
    double alpha;
    const void *x;    /* [batch, channels, height, width] or [batch, height, width, channels] */
    const void *w;    /* [filters, channels / groups, r, s] or [filters, r, s, channels / groups] */
    const void *bias; /* [filters] of type out, or NULL */
    void *y;          /* as x, with the output's sizes, of type out */
    /* Elements from one row of W, along its last dimension, to the next. 0: W is contiguous. */
    uint64_t w_leading;
};

/* The distance from one image, channel, row and column to the next, in elements. */
struct conv_strides {
    uint64_t image, channel, row, column;
};
struct conv_strides conv_strides_x(const struct conv_problem *problem);
struct conv_strides conv_strides_y(const struct conv_problem *problem); /* channel: of filters */
struct conv_strides conv_strides_w(const struct conv_problem *problem); /* image: of filters */

/* Whether the elements of each filter are contiguous, and the filters too. */
bool conv_w_is_contiguous(const struct conv_problem *problem);

/* The number of multiplications and additions: 2 for each element of Y and each element of a
 * filter. For metrics. `problem` is a struct conv_problem. */
double conv_flops(const void *problem);

/* The part of the problem that computes `images` images from `first` on. The results of the part
 * have the same bits as in the whole. */
struct conv_problem conv_subproblem(const struct conv_problem *problem, uint64_t first,
                                    uint64_t images);

#endif
