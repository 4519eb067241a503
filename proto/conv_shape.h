/*
 * conv_shape.h - the sizes of a convolution: operands, strides, padding, dilation, groups, and the
 * size of the output that follows from them.
 *
 * X has `batch` images of `channels` x `height` x `width`, W has `filters` filters of channels /
 * groups x r x s, and Y has `batch` images of `filters` x out_height x out_width:
 *
 *   Y[i, f, y, x] = sum over c, u, v of
 *       W[f, c, u, v] * X[i, first + c, y * stride_h - pad_top + u * dilation_h,
 *                                       x * stride_w - pad_left + v * dilation_w]
 *
 * with first = f / (filters / groups) * (channels / groups). X is 0 outside of its height and
 * width. The filter is not mirrored, as in all libraries for neural networks.
 *
 * Pure functions, any thread.
 */
#ifndef PROTO_CONV_SHAPE_H
#define PROTO_CONV_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

/* The order of the dimensions of X and Y: channels before or after height and width. */
enum conv_layout { CONV_NCHW, CONV_NHWC };
/* The order of the dimensions of W: channels before or after r and s. */
enum conv_w_layout { CONV_KCRS, CONV_KRSC };

enum {
    CONV_DIM_MAX = 2147483647, /* every size, stride, dilation and padding */
    /* out_height * out_width of one image, and channels / groups * r * s, which are dimensions of a
     * product. */
    CONV_PLANE_MAX = 2147483647
};

struct conv_shape {
    enum conv_layout layout;
    enum conv_w_layout w_layout;
    uint64_t batch, channels, height, width;
    uint64_t filters, r, s, groups;
    uint64_t stride_h, stride_w, dilation_h, dilation_w;
    uint64_t pad_top, pad_bottom, pad_left, pad_right;
    uint64_t out_height, out_width; /* set by conv_shape_settle */
};

/* Sets the padding for which the output has the size of the input divided by the stride, rounded
 * up. If the padding is odd, the larger half is at the bottom or at the right. Sizes, strides and
 * dilations must be from 1 to CONV_DIM_MAX. */
void conv_shape_pad_same(struct conv_shape *shape);

/* Checks the sizes and sets out_height and out_width. GEMMD_ERR_MALFORMED, with the name of a
 * parameter in fault->field, if a size, stride or dilation is 0, if channels or filters is not a
 * multiple of groups, or if the filter is larger than the padded input. GEMMD_ERR_TOO_LARGE if a
 * size exceeds CONV_DIM_MAX or CONV_PLANE_MAX. */
enum gemmd_error conv_shape_settle(struct conv_shape *shape, struct fault *fault);

/* The number of elements of X, W and Y. False on overflow. */
bool conv_shape_x(const struct conv_shape *shape, uint64_t *elements);
bool conv_shape_w(const struct conv_shape *shape, uint64_t *elements);
bool conv_shape_y(const struct conv_shape *shape, uint64_t *elements);

/* Whether the convolution is a product of each pixel's channels with W: r, s, strides and groups
 * are 1, and there is no padding. */
bool conv_shape_is_pointwise(const struct conv_shape *shape);
/* Whether each channel has filters of its own: groups equals channels, and is more than 1. */
bool conv_shape_is_depthwise(const struct conv_shape *shape);

#endif
