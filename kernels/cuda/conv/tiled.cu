/*
 * tiled - a tile of X with its halo in shared memory, which all outputs of a block use.
 *
 * A block computes a square of SIDE x SIDE outputs of 8 filters. For each channel the block loads
 * the elements of X that the square needs, the halo included, and the channel's weights of the 8
 * filters; every element of X is then used r * s * 8 times from shared memory. A filter of 3 x 3
 * needs 34 x 34 elements for 32 x 32 outputs: the halo costs 13 % more loads than there are
 * outputs, 27 % for 16 x 16 and 56 % for 8 x 8, and without the tile every output would load 9
 * elements. A filter of 7 x 7 needs 38 x 38, 41 % more.
 *
 * The square is the largest one of 32, 16 and 8 that is not wider than the image needs and whose
 * tile of X fits. A sum is one chain of multiply-adds over channels, r and s, in that order, in
 * every square.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/types.cuh"
#include "kernels/cuda/launch.cuh"

enum { FILTERS = CONV_TILED_FILTERS, THREADS_MAX = 256, SHARED_BYTES = 48 << 10 };

/* Elements of X along one side of a tile. */
static uint64_t side_of_x(uint64_t side, uint64_t stride, uint64_t taps, uint64_t dilation)
{
    return (side - 1) * stride + (taps - 1) * dilation + 1;
}

static uint64_t shared_bytes(const struct conv_shape &s, uint64_t side)
{
    const uint64_t most = SHARED_BYTES;
    const uint64_t rows = side_of_x(side, s.stride_h, s.r, s.dilation_h);
    const uint64_t columns = side_of_x(side, s.stride_w, s.s, s.dilation_w);
    if (rows > most || columns > most || s.r > most || s.s > most)
        return UINT64_MAX;
    return (rows * columns + FILTERS * s.r * s.s) * sizeof(float);
}

uint32_t conv_tiled_side(const struct conv_shape *shape)
{
    const uint64_t wanted =
        shape->out_height > shape->out_width ? shape->out_height : shape->out_width;
    for (uint32_t side = 32; side >= 8; side /= 2)
        if ((side == 8 || wanted > side / 2) && shared_bytes(*shape, side) <= SHARED_BYTES)
            return side;
    return 0;
}

template <typename In, typename Out, int SIDE>
__global__ void __launch_bounds__(THREADS_MAX)
    conv_tiled_kernel(const __grid_constant__ struct conv_direct job,
                      const __grid_constant__ conv::finish<Out> finish)
{
    using Sum = conv::sum_t<In>;
    constexpr int THREADS = SIDE * SIDE < THREADS_MAX ? SIDE * SIDE : THREADS_MAX;
    constexpr int ROW_STEP = THREADS / SIDE, OUTPUTS = SIDE / ROW_STEP; /* of a thread */
    extern __shared__ unsigned char shared_memory[];
    const struct conv_problem &p = job.problem;
    const struct conv_shape &s = p.shape;
    const uint32_t stride_h = (uint32_t)s.stride_h, stride_w = (uint32_t)s.stride_w;
    const uint32_t dilation_h = (uint32_t)s.dilation_h, dilation_w = (uint32_t)s.dilation_w;
    const uint32_t r = (uint32_t)s.r, taps = (uint32_t)(s.r * s.s), columns_of_taps = (uint32_t)s.s;
    const uint32_t rows = (SIDE - 1) * stride_h + (r - 1) * dilation_h + 1;
    const uint32_t columns = (SIDE - 1) * stride_w + (columns_of_taps - 1) * dilation_w + 1;
    Sum *tile = (Sum *)shared_memory, *weights = tile + rows * columns;

    const uint32_t group_filters = (uint32_t)(s.filters / s.groups);
    const uint32_t group_channels = (uint32_t)(s.channels / s.groups);
    const uint32_t parts = (group_filters + FILTERS - 1) / FILTERS; /* of a group */
    const uint32_t tiles_w = (uint32_t)((s.out_width + SIDE - 1) / SIDE);
    const uint64_t row0 = (uint64_t)(blockIdx.x / tiles_w) * SIDE;
    const uint64_t column0 = (uint64_t)(blockIdx.x % tiles_w) * SIDE;
    const uint32_t tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;

    for (uint64_t image = blockIdx.z; image < s.batch; image += gridDim.z)
        for (uint64_t part = blockIdx.y; part < parts * s.groups; part += gridDim.y) {
            const uint64_t group = part / parts;
            const uint32_t first = (uint32_t)(part % parts) * FILTERS; /* of the group */
            const uint32_t filters = min((uint32_t)FILTERS, group_filters - first);
            const In *x =
                (const In *)p.x + image * job.x.image + group * group_channels * job.x.channel;
            const In *w = (const In *)p.w + (group * group_filters + first) * job.w.image;
            Sum sums[OUTPUTS][FILTERS] = {};
            for (uint32_t c = 0; c < group_channels; c++) {
                __syncthreads(); /* the tile before has been read */
                for (uint32_t i = threadIdx.x; i < rows * columns; i += THREADS) {
                    const int64_t y_in =
                        (int64_t)(row0 * stride_h + i / columns) - (int64_t)s.pad_top;
                    const int64_t x_in =
                        (int64_t)(column0 * stride_w + i % columns) - (int64_t)s.pad_left;
                    const bool inside = (uint64_t)y_in < s.height && (uint64_t)x_in < s.width;
                    tile[i] =
                        inside ? conv::load(
                                     x[c * job.x.channel + y_in * job.x.row + x_in * job.x.column])
                               : 0;
                }
                for (uint32_t i = threadIdx.x; i < FILTERS * taps; i += THREADS) {
                    const uint32_t filter = i % FILTERS, tap = i / FILTERS;
                    weights[i] = filter < filters
                                     ? conv::load(w[filter * job.w.image + c * job.w.channel +
                                                    tap / columns_of_taps * job.w.row +
                                                    tap % columns_of_taps * job.w.column])
                                     : 0;
                }
                __syncthreads();
                for (uint32_t u = 0; u < r; u++)
                    for (uint32_t v = 0; v < columns_of_taps; v++) {
                        Sum values[OUTPUTS], weight[FILTERS];
                        const Sum *of_tap = weights + (u * columns_of_taps + v) * FILTERS;
#pragma unroll
                        for (int f = 0; f < FILTERS; f++)
                            weight[f] = of_tap[f];
#pragma unroll
                        for (int i = 0; i < OUTPUTS; i++)
                            values[i] =
                                tile[((ty + i * ROW_STEP) * stride_h + u * dilation_h) * columns +
                                     tx * stride_w + v * dilation_w];
#pragma unroll
                        for (int i = 0; i < OUTPUTS; i++)
#pragma unroll
                            for (int f = 0; f < FILTERS; f++)
                                sums[i][f] = conv::multiply_add(values[i], weight[f], sums[i][f]);
                    }
            }
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) {
                const uint64_t row = row0 + ty + i * ROW_STEP, column = column0 + tx;
                if (row >= s.out_height || column >= s.out_width)
                    continue;
#pragma unroll
                for (uint32_t f = 0; f < FILTERS; f++) {
                    const uint64_t filter = group * group_filters + first + f;
                    if (f < filters)
                        finish.store((Out *)p.y + image * job.y.image + filter * job.y.channel +
                                         row * job.y.row + column * job.y.column,
                                     sums[i][f], filter);
                }
            }
        }
}

enum gemmd_error conv_tiled_launch(cudaStream_t stream, const struct conv_direct *job)
{
    const struct conv_shape &s = job->problem.shape;
    const uint32_t side = conv_tiled_side(&s);
    const uint64_t group_filters = s.filters / s.groups;
    const uint64_t tiles = ((s.out_height + side - 1) / side) * ((s.out_width + side - 1) / side);
    const uint64_t parts = (group_filters + FILTERS - 1) / FILTERS * s.groups;
    const dim3 grid((unsigned)tiles, grid_blocks(parts, 1), grid_blocks(s.batch, 1));
    const size_t bytes = (size_t)shared_bytes(s, side);
    return conv::with_types(job->problem, [&](auto types) {
        using In = typename decltype(types)::In;
        using Out = typename decltype(types)::Out;
        const conv::finish<Out> finish(job->problem);
        switch (side) {
        case 32:
            return launch_with_memory(conv_tiled_kernel<In, Out, 32>, grid, dim3(256), bytes,
                                      stream, *job, finish);
        case 16:
            return launch_with_memory(conv_tiled_kernel<In, Out, 16>, grid, dim3(256), bytes,
                                      stream, *job, finish);
        default:
            return launch_with_memory(conv_tiled_kernel<In, Out, 8>, grid, dim3(64), bytes, stream,
                                      *job, finish);
        }
    });
}
