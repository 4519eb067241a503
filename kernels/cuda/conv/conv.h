/*
 * conv.h - the convolution kernels of the CUDA backend, and the device code behind them as
 * functions that C can call.
 *
 * Each launch function enqueues on the stream and returns at once. The result is GEMMD_OK, or the
 * error of the launch (cuda_error_code).
 */
#ifndef KERNELS_CUDA_CONV_CONV_H
#define KERNELS_CUDA_CONV_CONV_H

#include <cuda_runtime_api.h>

#include "kernels/conv.h"
#include "kernels/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which "auto" tries them (kernels/operation.h), NULL-terminated. */
extern const struct operation_kernel *const conv_cuda_kernels[];
extern const struct operation_kernel conv_cuda_depthwise_strip, conv_cuda_depthwise,
    conv_cuda_implicit, conv_cuda_product, conv_cuda_tiled, conv_cuda_naive;

/* Whether groups have so few channels or filters that `tiled`, which takes the convolution, is
 * faster than tensor cores. Pure. */
bool conv_groups_are_small(const struct conv_shape *shape);

/* A convolution for the kernels that read X and W in any layout, with the strides of its tensors.
 */
struct conv_direct {
    struct conv_problem problem;
    struct conv_strides x, w, y;
};

/* Enqueues `naive`, for any convolution. */
enum gemmd_error conv_naive_launch(cudaStream_t stream, const struct conv_direct *job);

/* The tile of Y that a block of `tiled` computes, in each of CONV_TILED_FILTERS filters, is a
 * square of conv_tiled_side elements; 0: the tile of X for the smallest square does not fit in
 * shared memory. Pure. */
enum { CONV_TILED_FILTERS = 8 };
uint32_t conv_tiled_side(const struct conv_shape *shape);
enum gemmd_error conv_tiled_launch(cudaStream_t stream, const struct conv_direct *job);

/* Depthwise convolutions whose X and Y are in NHWC and have as many filters as channels. Channels
 * of X are a multiple of 4 bytes. conv_depthwise_fits: whether a tile fits in shared memory. Pure.
 */
bool conv_depthwise_fits(const struct conv_problem *problem);
enum gemmd_error conv_depthwise_launch(cudaStream_t stream, const struct conv_direct *job);

/* Depthwise convolutions as for conv_depthwise_launch, with filters and strides that
 * conv_depthwise_strip_fits. The pixels of X and Y are multiples of CONV_STRIP_CHANNELS elements
 * apart, and channels up to the next multiple may be read and written. `multiprocessors`: those of
 * the device. */
enum { CONV_STRIP_CHANNELS = 4 };
bool conv_depthwise_strip_fits(const struct conv_shape *shape);
enum gemmd_error conv_depthwise_strip_launch(cudaStream_t stream, uint32_t multiprocessors,
                                             const struct conv_direct *job);

/* A copy of the channels of `images` images of `pixels` pixels between the layouts. Channels-last
 * memory has `groups` groups of `channels` channels, which are `group_step` elements apart, and
 * pixels that are `pixel_step` elements apart; images follow one another. In channels-first memory
 * the planes of an image's channels follow one another, and images are `image_step` elements apart.
 * Elements have 1, 2 or 4 bytes. Memory between the groups, pixels and images is neither read nor
 * written. */
struct conv_transpose {
    const void *from;
    void *to;
    uint64_t images, pixels, groups, channels;
    uint64_t group_step, pixel_step, image_step;
    uint32_t element_bytes;
};
enum gemmd_error conv_to_channels_last(cudaStream_t stream, const struct conv_transpose *job);
enum gemmd_error conv_to_channels_first(cudaStream_t stream, const struct conv_transpose *job);

/* A copy of images to lines of pixels with `channels_to` channels each, with `pad_left` pixels of
 * zeros before the first pixel of a line and zeros after the last one (implicit.c says what for). A
 * line holds `rows` rows of an image: each of its pixels has the channels of the pixels of these
 * rows in one column, one row after another. An image has `lines` lines, of which the first starts
 * `pad_top` rows of zeros above the image. If `part_rows` is not 0, there are two lines for the
 * same rows, one after the other, and the second line has zeros in place of all rows but the first
 * `part_rows`. Lines are `line_to` elements apart, a multiple of 16 bytes, and channels beyond
 * `channels` are zeros. */
struct conv_spread {
    const void *from;
    void *to;
    struct conv_strides strides; /* of the source */
    uint64_t images, channels, height, width;
    uint64_t channels_to, pad_left, pad_top, rows, part_rows, lines, line_to;
    uint32_t element_bytes;
};
enum gemmd_error conv_spread_launch(cudaStream_t stream, const struct conv_spread *job);

/* Copies the elements of X that `rows` pixels of Y from `first` on need in one group to rows of a
 * matrix, `ld` elements apart, in the order of the elements of a filter of W. Pixels are counted
 * over all images. */
struct conv_gather {
    struct conv_direct direct;
    void *to;
    uint64_t group, first, rows, ld;
};
enum gemmd_error conv_gather_launch(cudaStream_t stream, const struct conv_gather *job);

#ifdef __cplusplus
}
#else
struct sm90_kernel;
/* Runs `implicit` with one of its tile configurations; NULL: the one that is chosen for the
 * problem. For tests and benchmarks. */
enum gemmd_error conv_implicit_run_with(struct gemm_context *context,
                                        const struct sm90_kernel *kernel,
                                        const struct conv_problem *problem, void *workspace);
#endif
#endif
