/*
 * known_conv2d.h - small convolutions with known answers, for every type. The self-test uses them.
 *
 * X and W hold small integers, and most elements of W are zeros. So every sum is a small integer,
 * which every type holds exactly and which does not depend on the order of the additions.
 */
#ifndef KERNELS_KNOWN_CONV2D_H
#define KERNELS_KNOWN_CONV2D_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/conv.h"

/* Bytes of host memory for the operands and the result in any type. Each part starts at a multiple
 * of 256 bytes. */
enum { KNOWN_CONV2D_BYTES = 64 * 1024 };

/* Which convolution: channels last or first, pointwise, one filter for each channel, or f32 with
 * precision tf32. */
enum known_conv2d {
    KNOWN_CONV2D_NHWC,
    KNOWN_CONV2D_NCHW,
    KNOWN_CONV2D_POINTWISE,
    KNOWN_CONV2D_DEPTHWISE,
    KNOWN_CONV2D_TF32,
    KNOWN_CONV2D_COUNT
};

/* Makes a problem with operands of type `dtype`, and a result of that type, or of i32 for i8.
 * Writes the operands to `memory` (KNOWN_CONV2D_BYTES bytes, aligned to 256), which also has room
 * for the result, and fills the result with bytes that are not the answer. */
void known_conv2d_init(struct conv_problem *problem, enum gemmd_dtype dtype,
                       enum known_conv2d which, void *memory);
/* Whether the result of the problem, a struct conv_problem, is the known answer. If not, the first
 * wrong element is at (*row, *column), where rows are the pixels of all images and columns are
 * filters. */
bool known_conv2d_check(const void *problem, uint64_t *row, uint64_t *column);

#endif
