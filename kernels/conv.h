/*
 * conv.h - the interface of the convolution kernels, and the choice of a kernel for a problem.
 *
 *   Y = act(alpha * conv(X, W) + bias)
 *
 * proto/conv_shape.h has the formula, the sizes and the layouts. The bias has one element for each
 * filter. The epilogue, which is everything after the sum, is computed in the accumulator's type
 * (dtype_accumulator) and rounded once to `out`. 32-bit integer results wrap modulo 2^32.
 *
 * The elements of padding are zeros that take part in the sum: an infinite or NaN weight at a
 * padded position makes the result NaN, as in IEEE arithmetic.
 *
 * The bits of an image of Y depend on the same image of X, on W and on the bias, and never on the
 * other images or their number.
 *
 * X, W and Y are contiguous. All pointers are in the memory of the context's backend. On CUDA they
 * and the workspace start at multiples of 256 bytes, and a kernel may read all of an aligned block
 * of 16 bytes that contains a byte of an operand; on the CPU they are aligned to their elements,
 * and the workspace to 64 bytes. Y overlaps no operand. A kernel allocates nothing.
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
};

/* The distance from one image, channel, row and column to the next, in elements. */
struct conv_strides {
    uint64_t image, channel, row, column;
};
struct conv_strides conv_strides_x(const struct conv_problem *problem);
struct conv_strides conv_strides_y(const struct conv_problem *problem); /* channel: of filters */
struct conv_strides conv_strides_w(const struct conv_problem *problem); /* image: of filters */

/* The number of multiplications and additions: 2 for each element of Y and each element of a
 * filter. For metrics. */
double conv_flops(const struct conv_problem *problem);

/* The part of the problem that computes `images` images from `first` on. Its results have the bits
 * that the whole has. On CUDA `first` must be a multiple of conv_aligned_images. */
struct conv_problem conv_problem_part(const struct conv_problem *problem, uint64_t first,
                                      uint64_t images);

/* The smallest number of images that take a multiple of 256 bytes in X and in Y. */
uint64_t conv_aligned_images(const struct conv_problem *problem);

/* A kernel. The members have the meaning that they have in struct gemm_kernel. */
struct conv_kernel {
    const char *name;
    const char *description;     /* one line, for /info */
    uint32_t compute_capability; /* the only one the kernel runs on, 90 for 9.0; 0: any device */
    /* The operations (conv_flops) that one launch should have. A convolution with more is cut into
     * several calls of `run`, by images (conv_problem_part). 0: a convolution is computed in one
     * call. */
    double launch_flops;
    bool (*takes)(const struct conv_problem *problem);
    /* Whether automatic selection may choose the kernel for a problem that the kernel takes. Must
     * not depend on the batch. NULL: always. */
    bool (*preferred)(const struct conv_problem *problem);
    bool (*workspace_bytes)(const struct conv_problem *problem, uint64_t *out);
    enum gemmd_error (*run)(struct gemm_context *context, const struct conv_problem *problem,
                            void *workspace);
};

/* The kernels of a backend in the order of choice, NULL-terminated; empty for a backend that is not
 * built in. */
const struct conv_kernel *const *conv_kernels(enum gemm_backend backend);

/* Whether the kernel runs on the device's architecture and is not disabled there. */
bool conv_kernel_runs_on(const struct conv_kernel *kernel, const struct gemm_device *device);

/* As gemm_select. If no kernel of the device takes the problem, the fault is at the dtype. */
enum gemmd_error conv_select(const struct gemm_device *device, const char *name,
                             const struct conv_problem *problem, const struct conv_kernel **kernel,
                             struct fault *fault);

/* The number of images that each launch of a convolution computes, a multiple of
 * conv_aligned_images; all of them if the convolution is not cut. Pure. */
uint64_t conv_launch_images(const struct conv_kernel *kernel, const struct conv_problem *problem);

#endif
