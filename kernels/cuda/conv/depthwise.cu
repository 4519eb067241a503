/*
 * depthwise - a filter for each channel, in NHWC, of any size, stride and dilation whose tile fits
 * in shared memory. The kernel serves the convolutions that depthwise_strip, which is 2 to 6 times
 * as fast, does not take: filters that are not 3 x 3, 5 x 5 or 7 x 7, 7 x 7 with a stride of 2,
 * dilations, strides of more than 2 or of two lengths, and pixels that are not a multiple of 4
 * channels.
 *
 * A block computes 8 rows of 8 pixels of 128 bytes of channels. The block loads the part of X that
 * these need to shared memory, in lines of 128 bytes, and the weights of its channels as f32 (i8:
 * i32). A warp computes a row of 8 pixels, with the 4 bytes of channels of each lane. For filters
 * of a width of 7 and a stride of 2, which depthwise_strip has too few registers for, a thread
 * keeps a row of X in registers: it reads 21 elements and 7 weights for 56 multiply-adds.
 *
 * A sum is one chain of multiply-adds over r and s.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/types.cuh"
#include "kernels/cuda/launch.cuh"

enum { LANES = 32, ROWS = 8, PIXELS = 8, LANE_BYTES = 4, SHARED_BYTES = 48 << 10 };

static uint64_t side_of_x(uint64_t side, uint64_t stride, uint64_t taps, uint64_t dilation)
{
    return (side - 1) * stride + (taps - 1) * dilation + 1;
}

static uint64_t shared_bytes(const struct conv_problem &p)
{
    const struct conv_shape &s = p.shape;
    const uint64_t most = SHARED_BYTES, lane_channels = p.dtype == GEMMD_F32  ? 1
                                                        : p.dtype == GEMMD_I8 ? 4
                                                                              : 2;
    const uint64_t rows = side_of_x(ROWS, s.stride_h, s.r, s.dilation_h);
    const uint64_t columns = side_of_x(PIXELS, s.stride_w, s.s, s.dilation_w);
    if (rows > most || columns > most || s.r > most || s.s > most)
        return UINT64_MAX;
    return rows * columns * LANES * LANE_BYTES + s.r * s.s * LANES * lane_channels * sizeof(float);
}

bool conv_depthwise_fits(const struct conv_problem *problem)
{
    return shared_bytes(*problem) <= SHARED_BYTES;
}

/* The channels of one lane as they are in memory. */
template <typename In> union lane_values {
    uint32_t bits;
    In values[LANE_BYTES / sizeof(In)];
};

/* S, STRIDE: the filter's width and the stride along a row if the kernel is compiled for them, with
 * a dilation of 1; or both 0. */
template <typename In, typename Out, int S, int STRIDE>
__global__ void __launch_bounds__(LANES *ROWS, 1) /* without the 1 some instances spill registers */
    conv_depthwise_kernel(const __grid_constant__ struct conv_direct job,
                          const __grid_constant__ conv::finish<Out> finish)
{
    using Sum = conv::sum_t<In>;
    constexpr int CHANNELS = LANE_BYTES / sizeof(In); /* of a lane */
    extern __shared__ unsigned char shared_memory[];
    const struct conv_problem &p = job.problem;
    const struct conv_shape &s = p.shape;
    const uint32_t stride_h = (uint32_t)s.stride_h,
                   stride_w = STRIDE ? STRIDE : (uint32_t)s.stride_w;
    const uint32_t dilation_h = (uint32_t)s.dilation_h, dilation_w = S ? 1 : (uint32_t)s.dilation_w;
    const uint32_t r = (uint32_t)s.r, taps_w = S ? S : (uint32_t)s.s, taps = r * taps_w;
    const uint32_t rows = (ROWS - 1) * stride_h + (r - 1) * dilation_h + 1;
    const uint32_t columns = (PIXELS - 1) * stride_w + (taps_w - 1) * dilation_w + 1;
    uint32_t *tile = (uint32_t *)shared_memory;            // [rows][columns][LANES]
    Sum *weights = (Sum *)(tile + rows * columns * LANES); // [taps][LANES][CHANNELS]

    const uint32_t lane = threadIdx.x, warp = threadIdx.y;
    const uint64_t channel0 = (uint64_t)blockIdx.y * LANES * CHANNELS,
                   channel = channel0 + lane * CHANNELS;
    const uint32_t tiles_w = (uint32_t)((s.out_width + PIXELS - 1) / PIXELS);
    const uint64_t row0 = (uint64_t)(blockIdx.x / tiles_w) * ROWS;
    const uint64_t column0 = (uint64_t)(blockIdx.x % tiles_w) * PIXELS;

    for (uint32_t i = warp * LANES + lane; i < taps * LANES * CHANNELS; i += ROWS * LANES) {
        const uint64_t filter = channel0 + i % (LANES * CHANNELS);
        const uint32_t tap = i / (LANES * CHANNELS);
        weights[i] =
            filter < s.filters
                ? conv::load(((const In *)p.w)[filter * job.w.image + tap / taps_w * job.w.row +
                                               tap % taps_w * job.w.column])
                : 0;
    }
    for (uint64_t image = blockIdx.z; image < s.batch; image += gridDim.z) {
        const In *x = (const In *)p.x + image * job.x.image + channel;
        __syncthreads(); /* the tile before has been read */
#pragma unroll 4
        for (uint32_t i = warp; i < rows * columns; i += ROWS) {
            const int64_t y_in = (int64_t)(row0 * stride_h + i / columns) - (int64_t)s.pad_top;
            const int64_t x_in = (int64_t)(column0 * stride_w + i % columns) - (int64_t)s.pad_left;
            const bool inside =
                (uint64_t)y_in < s.height && (uint64_t)x_in < s.width && channel < s.channels;
            tile[i * LANES + lane] =
                inside ? *(const uint32_t *)(x + y_in * job.x.row + x_in * job.x.column) : 0;
        }
        __syncthreads();
        Sum sums[PIXELS][CHANNELS] = {};
        for (uint32_t u = 0; u < r; u++) {
            const uint32_t *line =
                tile + (warp * stride_h + u * dilation_h) * columns * LANES + lane;
            const Sum *of_row = weights + u * taps_w * LANES * CHANNELS + lane * CHANNELS;
            if constexpr (S > 0) {
                constexpr int WINDOW = (PIXELS - 1) * STRIDE + S;
                Sum window[WINDOW][CHANNELS];
#pragma unroll
                for (int i = 0; i < WINDOW; i++) {
                    const lane_values<In> v = {line[i * LANES]};
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++)
                        window[i][c] = conv::load(v.values[c]);
                }
#pragma unroll
                for (int v = 0; v < S; v++)
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++) {
                        const Sum weight = of_row[v * LANES * CHANNELS + c];
#pragma unroll
                        for (int i = 0; i < PIXELS; i++)
                            sums[i][c] =
                                conv::multiply_add(window[i * STRIDE + v][c], weight, sums[i][c]);
                    }
            } else {
                for (uint32_t v = 0; v < taps_w; v++) {
                    Sum weight[CHANNELS];
#pragma unroll
                    for (int c = 0; c < CHANNELS; c++)
                        weight[c] = of_row[v * LANES * CHANNELS + c];
#pragma unroll
                    for (int i = 0; i < PIXELS; i++) {
                        const lane_values<In> value = {
                            line[(i * stride_w + v * dilation_w) * LANES]};
#pragma unroll
                        for (int c = 0; c < CHANNELS; c++)
                            sums[i][c] = conv::multiply_add(conv::load(value.values[c]), weight[c],
                                                            sums[i][c]);
                    }
                }
            }
        }
        const uint64_t row = row0 + warp;
        Out *y = (Out *)p.y + image * job.y.image + row * job.y.row + channel;
        const bool aligned = job.y.column % CHANNELS == 0;
#pragma unroll
        for (uint32_t i = 0; i < PIXELS; i++) {
            const uint64_t column = column0 + i;
            if (row >= s.out_height || column >= s.out_width || channel >= s.filters)
                continue;
            Out results[CHANNELS];
#pragma unroll
            for (uint32_t c = 0; c < CHANNELS; c++)
                if (channel + c < s.filters)
                    finish.store(&results[c], sums[i][c], channel + c);
            Out *to = y + column * job.y.column;
            if (aligned && channel + CHANNELS <= s.filters) {
                struct alignas(sizeof(Out) * CHANNELS) whole {
                    Out values[CHANNELS];
                } all;
#pragma unroll
                for (int c = 0; c < CHANNELS; c++)
                    all.values[c] = results[c];
                *(whole *)to = all;
                continue;
            }
#pragma unroll
            for (uint32_t c = 0; c < CHANNELS; c++)
                if (channel + c < s.filters)
                    to[c] = results[c];
        }
    }
}

enum gemmd_error conv_depthwise_launch(cudaStream_t stream, const struct conv_direct *job)
{
    const struct conv_shape &s = job->problem.shape;
    return conv::with_types(job->problem, [&](auto types) {
        using In = typename decltype(types)::In;
        using Out = typename decltype(types)::Out;
        const uint64_t channels = LANES * LANE_BYTES / sizeof(In);
        const dim3 grid(
            (unsigned)(((s.out_height + ROWS - 1) / ROWS) * ((s.out_width + PIXELS - 1) / PIXELS)),
            grid_blocks(s.channels, channels), grid_blocks(s.batch, 1));
        const dim3 block(LANES, ROWS);
        const size_t bytes = (size_t)shared_bytes(job->problem);
        const conv::finish<Out> finish(job->problem);
        if (s.s == 7 && s.stride_w == 2 && s.dilation_w == 1)
            return launch_with_memory(conv_depthwise_kernel<In, Out, 7, 2>, grid, block, bytes,
                                      stream, *job, finish);
        return launch_with_memory(conv_depthwise_kernel<In, Out, 0, 0>, grid, block, bytes, stream,
                                  *job, finish);
    });
}
