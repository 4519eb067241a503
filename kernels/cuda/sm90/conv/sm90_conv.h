/*
 * sm90_conv.h - the convolution kernels of sm_90a: their tables, the choice of a kernel, and its
 * launch.
 *
 * X is [images, height, width, channels] with any distances that are multiples of 16 bytes, and W
 * is [filters, taps, channels]. Channels of both that do not fill 128 bytes are filled with zeros
 * by TMA. Y is a matrix of [images * out_height * out_width, filters].
 *
 * Every kernel of one type gives the same bits: an element is one chain of wgmmas over the taps,
 * and in each tap over its channels in steps of 128 bytes.
 */
#ifndef KERNELS_CUDA_SM90_CONV_SM90_CONV_H
#define KERNELS_CUDA_SM90_CONV_SM90_CONV_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/sm90/gemm/arguments.h"
#include "kernels/cuda/sm90/sm90.h"

#ifdef __cplusplus
extern "C" {
#else
#include "kernels/conv.h"
#endif

/* The parameters of the kernels. launch.c fills the struct in, and conv.cuh reads it. */
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

/* The tables, each ended by a kernel without a name. functions[0][1][1] is the kernel. */
extern const struct sm90_kernel sm90_conv_kernels_bf16[], sm90_conv_kernels_f16[],
    sm90_conv_kernels_i8[], sm90_conv_kernels_tf32[];

/* Properties of a device that launches of convolutions need in addition to struct sm90_device. */
struct sm90_conv_device {
    void *encode; /* cuTensorMapEncodeIm2col; NULL: not opened */
};

#ifdef __cplusplus
}
#else

enum { SM90_CONV_LINE_BYTES = 128 }; /* of k in a stage, for one pixel or one filter */

/* A convolution as the kernels compute it. Distances are in elements, and their bytes are multiples
 * of 16. The tensors start at multiples of 16 bytes. */
struct sm90_conv {
    enum gemmd_dtype dtype, out;
    enum gemm_act act;
    double alpha;
    const void *x, *w, *bias;
    void *y;
    uint64_t images, height, width, channels;
    uint64_t x_image, x_row, x_pixel; /* distances */
    uint64_t filters, w_filter, w_tap;
    uint64_t taps_h, taps_w, dilation_h, dilation_w;
    uint64_t last_further; /* rows that the last row of taps lies further down; less than
                              dilation_h */
    uint64_t stride_h, stride_w, pad_top, pad_left;
    uint64_t out_height, out_width;
    uint64_t ldy; /* distance of the pixels of Y; the bytes of a pixel may be written up to the next
                     multiple of 16 */
};

struct sm90_conv_launch {
    struct sm90_conv_arguments arguments;
    const void *function;
    uint32_t blocks, cluster, threads, shared_bytes;
};

/* Prepares the kernels for the current device, whose compute capability is 9.0. Called before the
 * first launch. */
cudaError_t sm90_conv_device_open(struct sm90_conv_device *device);

/* The table of a type; NULL if there is none. f32 is computed as tf32. */
const struct sm90_kernel *sm90_conv_kernels(enum gemmd_dtype dtype);

/* Whether the kernels can compute the convolution. Ignores pointers. TMA limits padding and the
 * reach of filters to 128 elements or so, and strides to 8. Pure. */
bool sm90_conv_takes(const struct sm90_conv *conv);

/* The kernel with the lowest estimated time. Pure. */
const struct sm90_kernel *sm90_conv_choose(const struct sm90_conv *conv,
                                           const struct sm90_card *card);

/* Prepares a launch of a convolution that sm90_conv_takes. Fails if a pointer is not aligned. */
cudaError_t sm90_conv_prepare(const struct sm90_device *device,
                              const struct sm90_conv_device *conv_device,
                              const struct sm90_kernel *kernel, const struct sm90_conv *conv,
                              struct sm90_conv_launch *launch);

/* Enqueues a prepared launch on the stream. */
cudaError_t sm90_conv_enqueue(const struct sm90_conv_launch *launch, cudaStream_t stream);

#endif
#endif
