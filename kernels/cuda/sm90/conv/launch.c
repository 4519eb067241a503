/*
 * The host code of the convolution kernels of sm_90a: from a convolution to tensor maps, arguments
 * and a grid.
 */
#include "kernels/cuda/sm90/conv/sm90_conv.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/sm90/conv/estimate.h"
#include "kernels/cuda/sm90/grid.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "proto/dtype.h"
#include "proto/size.h"

/* TMA's limits on the box of im2col copies, on the offsets in it, and on strides. */
enum { CORNER_MIN = -128, CORNER_MAX = 127, OFFSET_MAX = 255, STRIDE_MAX = 8 };

cudaError_t sm90_conv_device_open(struct sm90_conv_device *device)
{
    enum cudaDriverEntryPointQueryResult found;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &device->encode,
                                                         12000, cudaEnableDefault, &found);
    if (error == cudaSuccess && found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    const struct sm90_kernel *const tables[] = {sm90_conv_kernels_bf16, sm90_conv_kernels_f16,
                                                sm90_conv_kernels_i8, sm90_conv_kernels_tf32};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct sm90_kernel *kernel = tables[t];
             kernel->name != NULL && error == cudaSuccess; kernel++)
            error = cudaFuncSetAttribute(kernel->functions[0][1][1],
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)kernel->shared_bytes);
    return error;
}

const struct sm90_kernel *sm90_conv_kernels(enum gemmd_dtype dtype)
{
    switch (dtype) {
    case GEMMD_BF16:
        return sm90_conv_kernels_bf16;
    case GEMMD_F16:
        return sm90_conv_kernels_f16;
    case GEMMD_I8:
        return sm90_conv_kernels_i8;
    case GEMMD_F32:
        return sm90_conv_kernels_tf32;
    default:
        return NULL;
    }
}

static bool is_aligned(uint64_t elements, enum gemmd_dtype dtype)
{
    return elements * dtype_size(dtype) % 16 == 0;
}

/* Whether TMA can step over one side of X, from the first position of the filter to the last. */
static bool fits_box(uint64_t size, uint64_t pad, uint64_t out, uint64_t stride, uint64_t taps,
                     uint64_t dilation)
{
    const int64_t last = (int64_t)((out - 1) * stride) - (int64_t)pad;
    const int64_t upper = last - (int64_t)(size - 1);
    /* If there is only one position (out == 1), the stride is not used. */
    return (stride <= STRIDE_MAX || out == 1) && pad <= -CORNER_MIN && upper >= CORNER_MIN &&
           upper <= CORNER_MAX && (taps - 1) * dilation <= OFFSET_MAX;
}

bool sm90_conv_takes(const struct sm90_conv *c)
{
    const uint64_t limit = INT32_MAX;
    const uint64_t pixels = c->out_height * c->out_width; /* at most CONV_PLANE_MAX */
    if (sm90_conv_kernels(c->dtype) == NULL || c->images > limit / pixels ||
        c->filters > limit - 512 || c->channels > limit || c->taps_h * c->taps_w > limit ||
        c->height > limit || c->width > limit)
        return false;
    const uint64_t steps = size_blocks(c->channels * dtype_size(c->dtype), SM90_CONV_LINE_BYTES) *
                           c->taps_h * c->taps_w;
    return steps <= limit && c->images * pixels <= limit - 512 &&
           size_blocks(c->images * pixels, 64) * size_blocks(c->filters, 64) <= limit &&
           is_aligned(c->x_pixel, c->dtype) && is_aligned(c->x_row, c->dtype) &&
           is_aligned(c->x_image, c->dtype) && is_aligned(c->w_tap, c->dtype) &&
           is_aligned(c->w_filter, c->dtype) && is_aligned(c->ldy, c->out) &&
           (c->taps_h - 1) * c->dilation_h + c->last_further <= OFFSET_MAX &&
           fits_box(c->height, c->pad_top, c->out_height, c->stride_h, c->taps_h, c->dilation_h) &&
           fits_box(c->width, c->pad_left, c->out_width, c->stride_w, c->taps_w, c->dilation_w);
}

const struct sm90_kernel *sm90_conv_choose(const struct sm90_conv *c, const struct sm90_card *card)
{
    const struct sm90_rates *rates = sm90_conv_rates(c->dtype);
    const struct sm90_kernel *best = NULL;
    double best_us = INFINITY;
    for (const struct sm90_kernel *k = sm90_conv_kernels(c->dtype); k != NULL && k->name != NULL;
         k++) {
        const double us = sm90_conv_estimate_us(k, c, rates, card);
        if (us < best_us) {
            best = k;
            best_us = us;
        }
    }
    return best;
}

/* Encodes the map of X for copies of `pixels` pixels. */
static cudaError_t encode_x(const struct sm90_conv_device *device, const struct sm90_conv *c,
                            uint32_t tile_k, uint32_t pixels, CUtensorMap *map)
{
    const uint64_t size = dtype_size(c->dtype);
    const struct tensor_map_im2col view = {
        .data = c->x,
        /* TF32: rounds f32 on the way in; the tensor core alone would truncate. */
        .type =
            c->dtype == GEMMD_F32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : tensor_map_type(c->dtype),
        .dims = {c->channels, c->width, c->height, c->images},
        .stride_bytes = {c->x_pixel * size, c->x_row * size, c->x_image * size},
        .first_h = -(int32_t)c->pad_top,
        .first_w = -(int32_t)c->pad_left,
        .last_h = (int32_t)((c->out_height - 1) * c->stride_h) - (int32_t)c->pad_top,
        .last_w = (int32_t)((c->out_width - 1) * c->stride_w) - (int32_t)c->pad_left,
        .step_h = c->out_height > 1 ? (uint32_t)c->stride_h : 1,
        .step_w = c->out_width > 1 ? (uint32_t)c->stride_w : 1,
        .channels = tile_k,
        .pixels = pixels,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return tensor_map_encode_im2col(device->encode, &view, map);
}

/* Encodes the map of W for copies of `filters` filters. */
static cudaError_t encode_w(const struct sm90_device *device, const struct sm90_conv *c,
                            uint32_t tile_k, uint32_t filters, CUtensorMap *map)
{
    const uint64_t size = dtype_size(c->dtype), taps = c->taps_h * c->taps_w;
    const struct tensor_map_view view = {
        .data = c->w,
        .type =
            c->dtype == GEMMD_F32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : tensor_map_type(c->dtype),
        .dimensions = 3,
        .dims = {c->channels, c->filters, taps},
        .stride_bytes = {c->w_filter * size, (taps > 1 ? c->w_tap : c->w_filter) * size},
        .box = {tile_k, filters, 1},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return tensor_map_encode(device, &view, map);
}

static cudaError_t encode_y(const struct sm90_device *device, const struct sm90_conv *c, uint64_t m,
                            CUtensorMap *map)
{
    const uint64_t size = dtype_size(c->out);
    const struct tensor_map_view view = {
        .data = c->y,
        .type = tensor_map_type(c->out),
        .dimensions = 3,
        .dims = {c->filters, m, 1},
        .stride_bytes = {c->ldy * size, c->ldy * size},
        /* The box that a warp stores at once. */
        .box = {(uint32_t)(SM90_CONV_LINE_BYTES / size), 16, 1},
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return tensor_map_encode(device, &view, map);
}

/* The lines of the last tile that a block copies: those that exist, rounded up to a multiple of
 * eight. If the blocks of a cluster share tiles, a block copies its whole share. */
static uint32_t lines_of_last(uint64_t extent, uint32_t tile, uint32_t shares)
{
    return shares > 1 ? tile / shares : (uint32_t)size_blocks((extent - 1) % tile + 1, 8) * 8;
}

static cudaError_t encode_maps(const struct sm90_device *device,
                               const struct sm90_conv_device *conv_device,
                               const struct sm90_kernel *kernel, const struct sm90_conv *c,
                               struct sm90_arguments *a)
{
    const uint32_t x_lines = kernel->tile_m / kernel->cluster_n;
    const uint32_t y_lines = kernel->tile_n / kernel->cluster_m;
    const uint32_t x_last = lines_of_last(a->m, kernel->tile_m, kernel->cluster_n);
    const uint32_t y_last = lines_of_last(a->n, kernel->tile_n, kernel->cluster_m);
    a->x_bytes = kernel->tile_m * SM90_CONV_LINE_BYTES;
    a->y_bytes = kernel->tile_n * SM90_CONV_LINE_BYTES;
    a->x_end_bytes = x_last * kernel->cluster_n * SM90_CONV_LINE_BYTES;
    a->y_end_bytes = y_last * kernel->cluster_m * SM90_CONV_LINE_BYTES;
    cudaError_t error = encode_x(conv_device, c, kernel->tile_k, x_lines, &a->x);
    if (error == cudaSuccess)
        error = encode_x(conv_device, c, kernel->tile_k, x_last, &a->x_end);
    if (error == cudaSuccess)
        error = encode_w(device, c, kernel->tile_k, y_lines, &a->y);
    if (error == cudaSuccess)
        error = encode_w(device, c, kernel->tile_k, y_last, &a->y_end);
    if (error == cudaSuccess && (a->plain || a->in_place))
        error = encode_y(device, c, a->m, &a->c);
    return error;
}

cudaError_t sm90_conv_prepare(const struct sm90_device *device,
                              const struct sm90_conv_device *conv_device,
                              const struct sm90_kernel *kernel, const struct sm90_conv *c,
                              struct sm90_conv_launch *launch)
{
    const struct gemm_problem product = sm90_conv_product(c);
    memset(launch, 0, sizeof *launch);
    struct sm90_conv_arguments *arguments = &launch->arguments;
    struct sm90_arguments *a = &arguments->product;
    const uint32_t cluster = kernel->cluster_m * kernel->cluster_n;
    const uint32_t clusters = device->card.multiprocessors / cluster;
    a->m = (uint32_t)product.m;
    a->n = (uint32_t)product.n;
    a->k = (uint32_t)product.k;
    a->k_tiles = a->chunk_tiles = (uint32_t)(product.k / kernel->tile_k);
    a->tile_rows = (uint32_t)size_blocks(product.m, (uint64_t)kernel->tile_m * kernel->cluster_m);
    a->tile_columns =
        (uint32_t)size_blocks(product.n, (uint64_t)kernel->tile_n * kernel->cluster_n);
    a->tiles = a->tile_rows * a->tile_columns;
    a->band = sm90_band_rows(kernel, clusters, a->tile_rows);
    a->bias = c->bias;
    a->c_data = c->y;
    a->ldc = (int64_t)c->ldy;
    a->alpha = (float)c->alpha;
    if (c->out == GEMMD_I32)
        a->alpha_int = (int32_t)(uint32_t)(int64_t)c->alpha; /* modulo 2^32, as the sum */
    a->act = (uint32_t)c->act;
    a->out = sm90_out(c->out);
    a->plain = c->bias == NULL && c->act == GEMM_ACT_NONE;
    a->in_place = dtype_size(c->out) == 2;
    arguments->out_pixels = (uint32_t)(c->out_height * c->out_width);
    arguments->out_width = (uint32_t)c->out_width;
    arguments->stride_h = (int32_t)c->stride_h;
    arguments->stride_w = (int32_t)c->stride_w;
    arguments->pad_top = (int32_t)c->pad_top;
    arguments->pad_left = (int32_t)c->pad_left;
    arguments->taps_h = (uint32_t)c->taps_h;
    arguments->taps_w = (uint32_t)c->taps_w;
    arguments->dilation_h = (uint32_t)c->dilation_h;
    arguments->dilation_w = (uint32_t)c->dilation_w;
    arguments->last_further = (uint32_t)c->last_further;
    arguments->tap_tiles = (uint32_t)size_blocks(c->channels, kernel->tile_k);
    const cudaError_t error = encode_maps(device, conv_device, kernel, c, a);
    launch->function = kernel->functions[0][1][1];
    launch->blocks = cluster * (a->tiles < clusters ? a->tiles : clusters);
    launch->cluster = cluster;
    launch->threads = kernel->threads;
    launch->shared_bytes = kernel->shared_bytes;
    return error;
}

cudaError_t sm90_conv_enqueue(const struct sm90_conv_launch *launch, cudaStream_t stream)
{
    const struct sm90_grid grid = {.function = launch->function,
                                   .blocks = launch->blocks,
                                   .cluster = launch->cluster,
                                   .threads = launch->threads,
                                   .shared_bytes = launch->shared_bytes};
    return sm90_grid_enqueue(&grid, &launch->arguments, stream);
}
