/* Copies of images between the layouts (conv.h), at the speed of memory. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/launch.cuh"

enum { TILE = 64, THREADS_X = 32, THREADS_Y = 8, SPREAD_THREADS = 256, VECTOR = 16 /* bytes */ };
enum { SPREAD_IMAGES = 4 }; /* images for which a thread copies the same place */

/* The place of a channel in channels-last memory. */
static __device__ __forceinline__ uint64_t channel_place(const struct conv_transpose &job,
                                                         uint64_t channel)
{
    return job.groups == 1 ? channel
                           : channel / job.channels * job.group_step + channel % job.channels;
}

/* Transposes tiles of 64 channels and 64 pixels. TO_LAST: to channels-last memory. The tile has an
 * odd pitch in 4-byte words, so that neither direction has bank conflicts of 4-byte elements. */
template <typename Unit, bool TO_LAST>
__global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    conv_transpose_kernel(const __grid_constant__ struct conv_transpose job)
{
    constexpr uint32_t PITCH = TILE + (sizeof(Unit) == 4 ? 1 : sizeof(Unit) == 2 ? 2 : 4);
    __shared__ Unit tile[TILE][PITCH]; // [channel][pixel]
    const uint64_t channels = job.groups * job.channels;
    const uint64_t pixel0 = (uint64_t)blockIdx.x * TILE, last_image = job.pixels * job.pixel_step;
    for (uint64_t image = blockIdx.z; image < job.images; image += gridDim.z)
        for (uint64_t channel0 = (uint64_t)blockIdx.y * TILE; channel0 < channels;
             channel0 += (uint64_t)gridDim.y * TILE) {
            const Unit *first_in = (const Unit *)job.from;
            Unit *first_out = (Unit *)job.to;
            __syncthreads(); /* the tile before has been written */
            for (uint32_t i = threadIdx.y; i < TILE; i += THREADS_Y)
                for (uint32_t j = threadIdx.x; j < TILE; j += THREADS_X) {
                    const uint64_t pixel = pixel0 + (TO_LAST ? j : i);
                    const uint64_t channel = channel0 + (TO_LAST ? i : j);
                    if (pixel >= job.pixels || channel >= channels)
                        continue;
                    if (TO_LAST)
                        tile[i][j] =
                            first_in[image * job.image_step + channel * job.pixels + pixel];
                    else
                        tile[j][i] = first_in[image * last_image + pixel * job.pixel_step +
                                              channel_place(job, channel)];
                }
            __syncthreads();
            for (uint32_t i = threadIdx.y; i < TILE; i += THREADS_Y)
                for (uint32_t j = threadIdx.x; j < TILE; j += THREADS_X) {
                    const uint64_t pixel = pixel0 + (TO_LAST ? i : j);
                    const uint64_t channel = channel0 + (TO_LAST ? j : i);
                    if (pixel >= job.pixels || channel >= channels)
                        continue;
                    if (TO_LAST)
                        first_out[image * last_image + pixel * job.pixel_step +
                                  channel_place(job, channel)] = tile[j][i];
                    else
                        first_out[image * job.image_step + channel * job.pixels + pixel] =
                            tile[i][j];
                }
        }
}

template <bool TO_LAST>
static enum gemmd_error transpose(cudaStream_t stream, const struct conv_transpose &job)
{
    const dim3 block(THREADS_X, THREADS_Y);
    const dim3 grid(grid_blocks_x(job.pixels, TILE), grid_blocks(job.groups * job.channels, TILE),
                    grid_blocks(job.images, 1));
    switch (job.element_bytes) {
    case 1:
        return launch(conv_transpose_kernel<uint8_t, TO_LAST>, grid, block, stream, job);
    case 2:
        return launch(conv_transpose_kernel<uint16_t, TO_LAST>, grid, block, stream, job);
    default:
        return launch(conv_transpose_kernel<uint32_t, TO_LAST>, grid, block, stream, job);
    }
}

enum gemmd_error conv_to_channels_last(cudaStream_t stream, const struct conv_transpose *job)
{
    return transpose<true>(stream, *job);
}

enum gemmd_error conv_to_channels_first(cudaStream_t stream, const struct conv_transpose *job)
{
    return transpose<false>(stream, *job);
}

/* A thread writes the same 16 bytes of a line in some images. The place of the first element is
 * found by division, and those of the others by counting. */
template <typename Unit>
__global__ void __launch_bounds__(SPREAD_THREADS)
    conv_spread_kernel(const __grid_constant__ struct conv_spread job)
{
    constexpr uint32_t COUNT = VECTOR / sizeof(Unit);
    union {
        Unit units[COUNT];
        uint4 whole;
    } v;
    const uint32_t channels_to = (uint32_t)job.channels_to, rows = (uint32_t)job.rows;
    const uint32_t pieces = (uint32_t)(job.line_to / COUNT);                /* of a line */
    const uint64_t i = (uint64_t)blockIdx.x * SPREAD_THREADS + threadIdx.x; /* of an image */
    const uint64_t line = i >> 32 == 0 ? (uint32_t)i / pieces : i / pieces;
    if (line >= job.lines)
        return;
    const uint32_t first = (uint32_t)(i - line * pieces) * COUNT, of_row = first / channels_to;
    uint32_t channel = first - of_row * channels_to, pixel = of_row / rows;
    uint32_t row = of_row - pixel * rows;
    const bool parts = job.part_rows != 0;
    const uint32_t rows_here = parts && line % 2 == 1 ? (uint32_t)job.part_rows : rows;
    const int64_t y0 = (int64_t)((parts ? line / 2 : line) * rows) - (int64_t)job.pad_top;
    int64_t offsets[COUNT]; /* of the elements in an image of the source; -1: zero */
#pragma unroll
    for (uint32_t j = 0; j < COUNT; j++) {
        const int64_t x = (int64_t)pixel - (int64_t)job.pad_left, y = y0 + row;
        const bool inside = channel < job.channels && row < rows_here && (uint64_t)x < job.width &&
                            (uint64_t)y < job.height;
        offsets[j] = inside ? y * (int64_t)job.strides.row + x * (int64_t)job.strides.column +
                                  (int64_t)(channel * job.strides.channel)
                            : -1;
        if (++channel < channels_to)
            continue;
        channel = 0;
        if (++row < rows)
            continue;
        row = 0;
        pixel++;
    }
    for (uint64_t image = blockIdx.y; image < job.images; image += gridDim.y) {
        const Unit *from = (const Unit *)job.from + image * job.strides.image;
#pragma unroll
        for (uint32_t j = 0; j < COUNT; j++)
            v.units[j] = offsets[j] >= 0 ? from[offsets[j]] : (Unit)0;
        ((uint4 *)job.to)[image * job.lines * pieces + i] = v.whole;
    }
}

enum gemmd_error conv_spread_launch(cudaStream_t stream, const struct conv_spread *job)
{
    const uint64_t pieces = job->line_to * job->element_bytes / VECTOR;
    const dim3 grid(grid_blocks_x(job->lines * pieces, SPREAD_THREADS),
                    grid_blocks(job->images, SPREAD_IMAGES)),
        block(SPREAD_THREADS);
    switch (job->element_bytes) {
    case 1:
        return launch(conv_spread_kernel<uint8_t>, grid, block, stream, *job);
    case 2:
        return launch(conv_spread_kernel<uint16_t>, grid, block, stream, *job);
    default:
        return launch(conv_spread_kernel<uint32_t>, grid, block, stream, *job);
    }
}

/* A row of blocks copies one row of the matrix, a thread one element at a time. */
template <typename Unit>
__global__ void __launch_bounds__(SPREAD_THREADS)
    conv_gather_kernel(const __grid_constant__ struct conv_gather job)
{
    const struct conv_shape &s = job.direct.problem.shape;
    const struct conv_strides &xs = job.direct.x;
    const uint32_t channels = (uint32_t)(s.channels / s.groups), taps = (uint32_t)(s.r * s.s);
    const uint32_t k = channels * taps, i = blockIdx.x * SPREAD_THREADS + threadIdx.x;
    if (i >= k)
        return;
    const bool last = s.w_layout == CONV_KRSC;
    const uint32_t channel = last ? i % channels : i / taps;
    const uint32_t tap = last ? i / channels : i % taps, taps_w = (uint32_t)s.s;
    const uint64_t u = tap / taps_w, v = tap % taps_w;
    const uint64_t pixels = s.out_height * s.out_width;
    for (uint64_t line = blockIdx.y; line < job.rows; line += gridDim.y) {
        const uint64_t image = (job.first + line) / pixels, pixel = (job.first + line) % pixels;
        const int64_t row =
            (int64_t)(pixel / s.out_width * s.stride_h + u * s.dilation_h) - (int64_t)s.pad_top;
        const int64_t column =
            (int64_t)(pixel % s.out_width * s.stride_w + v * s.dilation_w) - (int64_t)s.pad_left;
        const bool inside = (uint64_t)row < s.height && (uint64_t)column < s.width;
        const Unit *from = (const Unit *)job.direct.problem.x + image * xs.image +
                           (job.group * channels + channel) * xs.channel;
        ((Unit *)job.to)[line * job.ld + i] =
            inside ? from[row * (int64_t)xs.row + column * (int64_t)xs.column] : (Unit)0;
    }
}

enum gemmd_error conv_gather_launch(cudaStream_t stream, const struct conv_gather *job)
{
    const struct conv_shape &s = job->direct.problem.shape;
    const dim3 block(SPREAD_THREADS);
    const dim3 grid(grid_blocks_x(s.channels / s.groups * s.r * s.s, SPREAD_THREADS),
                    grid_blocks(job->rows, 1));
    switch (job->direct.problem.dtype) {
    case GEMMD_I8:
        return launch(conv_gather_kernel<uint8_t>, grid, block, stream, *job);
    case GEMMD_F32:
        return launch(conv_gather_kernel<uint32_t>, grid, block, stream, *job);
    default:
        return launch(conv_gather_kernel<uint16_t>, grid, block, stream, *job);
    }
}
