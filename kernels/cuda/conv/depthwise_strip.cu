/*
 * depthwise_strip - a filter for each channel, in NHWC: 3 x 3 or 5 x 5 with a stride of 1 or 2, or
 * 7 x 7 with a stride of 1.
 *
 * A thread computes 4 channels of a strip of Y, which is 4 pixels wide and as high as a band of
 * rows. It goes down the rows of X: it reads the part of a row that its pixels need, widens each
 * element once, and adds it to the sums of all rows of Y that the row of X belongs to. A row of X
 * is read from global memory into registers while the row before it is multiplied. So an element is
 * read once for each strip that needs it, from L1 by the neighbouring strip, and there is no tile
 * in shared memory to wait for. Only the weights are in shared memory, as f32 (i8: i32): eight
 * lanes of a warp have the same strip and different channels, and the four strips of a warp read
 * the same weights.
 *
 * The sums of a thread are those of the rows of Y that are not complete. A row of X adds the taps
 * of one row of the filter to each of them, in an order in which a sum moves to its next place by
 * the way, so that no register is copied.
 *
 * A sum is one chain of multiply-adds over r and s, as in `depthwise`: both have the same bits.
 */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/types.cuh"
#include "kernels/cuda/launch.cuh"

enum {
    PIXELS = 4,    /* in a row of a strip */
    CHANNELS = 32, /* of a block */
    THREADS = 128,
    PITCH = CHANNELS + 4 /* of the weights of a tap: fewer bank conflicts while they are written */
};

/* The channels of a thread: 4, or 2 of f32, for which registers suffice. */
template <typename In> constexpr int VECTOR = sizeof(In) == 4 ? 2 : 4;
/* The threads with the channels of one strip, and the strips of a block. */
template <typename In> constexpr int LANES = CHANNELS / VECTOR<In>;
template <typename In> constexpr int STRIPS = THREADS / LANES<In>;
static_assert(CONV_STRIP_CHANNELS % VECTOR<uint8_t> == 0, "vectors are aligned");

/* One launch. Strips are counted along a row of Y, then over bands of rows, then over images.
 * Blocks with the same strips and other channels follow one another. */
struct strip_job {
    struct conv_direct direct;
    uint32_t strips_w, bands, band_rows, strips, channel_blocks;
};

template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) vector {
    T values[COUNT];
};

/* The channels of a pixel of X as they are in memory, in whole registers. */
template <typename In> using raw_vector = vector<uint32_t, sizeof(In) * VECTOR<In> / 4>;

template <typename In>
static __device__ __forceinline__ vector<conv::sum_t<In>, VECTOR<In>>
widen_vector(const raw_vector<In> &raw)
{
    constexpr int IN_WORD = sizeof(uint32_t) / sizeof(In);
    vector<conv::sum_t<In>, VECTOR<In>> wide;
#pragma unroll
    for (int c = 0; c < VECTOR<In>; c++) {
        const union {
            uint32_t word;
            In values[IN_WORD];
        } some = {raw.values[c / IN_WORD]};
        wide.values[c] = conv::load(some.values[c % IN_WORD]);
    }
    return wide;
}

/* Writes one row of a strip, of which `columns` pixels exist. */
template <bool ACT, typename Out, typename Sum, int COUNT>
static __device__ __forceinline__ void
store_row(const conv::finish<Out> &finish, const Sum (&sums)[PIXELS][COUNT],
          const typename conv::finish<Out>::compute (&bias)[COUNT], Out *to, uint64_t pixel,
          uint32_t columns)
{
#pragma unroll
    for (uint32_t j = 0; j < PIXELS; j++) {
        if (j >= columns)
            break;
        vector<Out, COUNT> results;
#pragma unroll
        for (int c = 0; c < COUNT; c++)
            finish.template store_with<ACT>(&results.values[c], sums[j][c], bias[c]);
        *(vector<Out, COUNT> *)(to + j * pixel) = results;
    }
}

/* TAPS: the side of the filter. BLOCKS: the blocks that run on a multiprocessor at once. */
template <typename In, typename Out, int TAPS, int STRIDE, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_depthwise_strip_kernel(const __grid_constant__ struct strip_job job,
                                const __grid_constant__ conv::finish<Out> finish)
{
    using Sum = conv::sum_t<In>;
    constexpr int VECTOR = ::VECTOR<In>, LANES = ::LANES<In>, STRIPS = ::STRIPS<In>;
    constexpr int WINDOW = (PIXELS - 1) * STRIDE + TAPS; /* pixels of X that a strip's row needs */
    constexpr int DEPTH = (TAPS + STRIDE - 1) / STRIDE;  /* rows of Y that a row of X belongs to */
    alignas(16) __shared__ Sum weights[TAPS * TAPS][PITCH];
    const struct conv_problem &p = job.direct.problem;
    const struct conv_shape &s = p.shape;
    const struct conv_strides &w = job.direct.w;
    const uint32_t lane = threadIdx.x, channel0 = blockIdx.x % job.channel_blocks * CHANNELS;
    const uint32_t channel = channel0 + lane * VECTOR;

    const uint32_t strip = blockIdx.x / job.channel_blocks * STRIPS + threadIdx.y;
    const bool active = strip < job.strips && channel < s.filters;
    const uint32_t column0 = strip % job.strips_w * PIXELS;
    const uint32_t of_image = strip / job.strips_w;
    const uint32_t row0 = of_image % job.bands * job.band_rows;
    const uint64_t image = of_image / job.bands;
    const int32_t rows = (int32_t)min(job.band_rows, (uint32_t)s.out_height - row0);

    /* The next row of X to read, and which of its pixels exist. */
    const int32_t x0 = (int32_t)(column0 * STRIDE) - (int32_t)s.pad_left;
    int32_t y_in = (int32_t)(row0 * STRIDE) - (int32_t)s.pad_top;
    const uint32_t y_end =
        (uint32_t)max(0, min((int32_t)s.height, y_in + (rows - 1) * STRIDE + TAPS));
    const uint32_t pixel = (uint32_t)job.direct.x.column;
    const In *line = (const In *)p.x + image * job.direct.x.image + channel +
                     y_in * (int64_t)job.direct.x.row + (int64_t)x0 * pixel;
    uint32_t exists = 0;
#pragma unroll
    for (int i = 0; i < WINDOW; i++)
        exists |= active && (uint32_t)(x0 + i) < (uint32_t)s.width ? 1u << i : 0;

    raw_vector<In> coming[STRIDE][WINDOW];
    const auto read_row = [&](raw_vector<In>(&to)[WINDOW]) {
        const uint32_t there = (uint32_t)y_in < y_end ? exists : 0;
        const In *from = line;
#pragma unroll
        for (int i = 0; i < WINDOW; i++, from += pixel) {
            to[i] = raw_vector<In>{};
            if (there >> i & 1)
                to[i] = *(const raw_vector<In> *)from;
        }
        line += job.direct.x.row;
        y_in++;
    };
#pragma unroll
    for (int e = 0; e < STRIDE; e++)
        read_row(coming[e]);

    /* The weights, while the first rows of X are on their way. */
    constexpr uint32_t WEIGHTS = TAPS * TAPS * CHANNELS;
#pragma unroll
    for (uint32_t first = 0; first < WEIGHTS; first += THREADS) {
        const uint32_t i = first + threadIdx.y * LANES + lane, tap = i / CHANNELS;
        const uint64_t filter = channel0 + i % CHANNELS;
        if (i < WEIGHTS)
            weights[tap][i % CHANNELS] =
                filter < s.filters
                    ? conv::load(
                          ((const In *)
                               p.w)[filter * w.image + tap / TAPS * w.row + tap % TAPS * w.column])
                    : 0;
    }
    __syncthreads();
    if (!active)
        return;

    Out *to = (Out *)p.y + image * job.direct.y.image + (uint64_t)row0 * job.direct.y.row +
              (uint64_t)column0 * job.direct.y.column + channel;
    const uint32_t columns = (uint32_t)s.out_width - column0;
    /* A step takes STRIDE rows of X. In each step, sums[a] is of the row of Y whose first step was
     * a steps before; the row with a = DEPTH - 1 is complete after this step. */
    Sum sums[DEPTH][PIXELS][VECTOR] = {};
    for (int32_t step = 0; step < rows + DEPTH - 1; step++) {
#pragma unroll
        for (int e = 0; e < STRIDE; e++) {
            vector<Sum, VECTOR> window[WINDOW];
#pragma unroll
            for (int j = 0; j < WINDOW; j++)
                window[j] = widen_vector<In>(coming[e][j]);
            read_row(coming[e]);
            asm volatile("" ::: "memory"); /* the weights stay in shared memory */
#pragma unroll
            for (int a = DEPTH - 1; a >= 0; a--) {
                const int u = a * STRIDE + e; /* the row of the filter */
                if (u >= TAPS)
                    continue;
                /* Saves the products of rows of Y outside the band, which are not stored. */
                if (TAPS > 3 && (step < a || step - a >= rows))
                    continue;
#pragma unroll
                for (int v = 0; v < TAPS; v++) {
                    const vector<Sum, VECTOR> weight =
                        *(const vector<Sum, VECTOR> *)&weights[u * TAPS + v][lane * VECTOR];
#pragma unroll
                    for (int j = 0; j < PIXELS; j++)
#pragma unroll
                        for (int c = 0; c < VECTOR; c++) {
                            const Sum before = e > 0 || v > 0 ? sums[a][j][c]
                                               : a > 0        ? sums[a > 0 ? a - 1 : 0][j][c]
                                                              : (Sum)0;
                            sums[a][j][c] = conv::multiply_add(window[j * STRIDE + v].values[c],
                                                               weight.values[c], before);
                        }
                }
            }
        }
        if (step < DEPTH - 1)
            continue;
        typename conv::finish<Out>::compute bias[VECTOR];
#pragma unroll
        for (int c = 0; c < VECTOR; c++)
            bias[c] = channel + c < s.filters ? finish.bias(channel + c) : 0;
        if (finish.rest.act == GEMM_ACT_NONE)
            store_row<false>(finish, sums[DEPTH - 1], bias, to, job.direct.y.column, columns);
        else
            store_row<true>(finish, sums[DEPTH - 1], bias, to, job.direct.y.column, columns);
        to += job.direct.y.row;
    }
}

static uint64_t blocks_of(const struct strip_job &job, uint64_t strips)
{
    return ((uint64_t)job.strips + strips - 1) / strips * job.channel_blocks;
}

/* Divides the rows of Y into `bands` bands, or fewer if rows do not suffice. */
static void set_bands(struct strip_job *job, uint32_t bands)
{
    const struct conv_shape &s = job->direct.problem.shape;
    job->band_rows = (uint32_t)((s.out_height + bands - 1) / bands);
    job->bands = (uint32_t)((s.out_height + job->band_rows - 1) / job->band_rows);
    job->strips = job->strips_w * job->bands * (uint32_t)s.batch;
}

/* Chooses the number of bands: many fill the device, few read fewer rows of X twice. `strips`:
 * of a block. `resident`: how many blocks the device runs at once. */
static void choose_bands(struct strip_job *job, uint64_t strips, uint64_t resident)
{
    const uint64_t most = 256, start_rows = 4; /* a block's start takes the time of about 4 rows */
    const struct conv_shape &s = job->direct.problem.shape;
    uint64_t best_cost = UINT64_MAX;
    uint32_t best = 1;
    for (uint32_t bands = 1; bands <= s.out_height && bands <= most; bands++) {
        set_bands(job, bands);
        const uint64_t rows = (uint64_t)(job->band_rows - 1) * s.stride_h + s.r + start_rows;
        const uint64_t cost = (blocks_of(*job, strips) + resident - 1) / resident * rows;
        if (cost < best_cost) {
            best_cost = cost;
            best = bands;
        }
    }
    set_bands(job, best);
}

template <typename In, typename Out, int TAPS, int STRIDE, int BLOCKS>
static enum gemmd_error launch_strips(cudaStream_t stream, uint32_t multiprocessors,
                                      const struct conv_direct &direct)
{
    const struct conv_shape &s = direct.problem.shape;
    struct strip_job job = {};
    job.direct = direct;
    job.strips_w = (uint32_t)((s.out_width + PIXELS - 1) / PIXELS);
    job.channel_blocks = (uint32_t)((s.channels + CHANNELS - 1) / CHANNELS);
    choose_bands(&job, STRIPS<In>, (uint64_t)multiprocessors * BLOCKS);
    const conv::finish<Out> finish(direct.problem);
    const dim3 grid((unsigned)blocks_of(job, STRIPS<In>)), block(LANES<In>, STRIPS<In>);
    return launch(conv_depthwise_strip_kernel<In, Out, TAPS, STRIDE, BLOCKS>, grid, block, stream,
                  job, finish);
}

enum gemmd_error conv_depthwise_strip_launch(cudaStream_t stream, uint32_t multiprocessors,
                                             const struct conv_direct *job)
{
    const uint64_t taps = job->problem.shape.r, stride = job->problem.shape.stride_h;
    return conv::with_types(job->problem, [&](auto types) {
        using In = typename decltype(types)::In;
        using Out = typename decltype(types)::Out;
        const bool one = stride == 1;
        switch (taps) {
        case 3:
            return one ? launch_strips<In, Out, 3, 1, 4>(stream, multiprocessors, *job)
                       : launch_strips<In, Out, 3, 2, 3>(stream, multiprocessors, *job);
        case 5:
            return one ? launch_strips<In, Out, 5, 1, 3>(stream, multiprocessors, *job)
                       : launch_strips<In, Out, 5, 2, 2>(stream, multiprocessors, *job);
        default:
            return launch_strips<In, Out, 7, 1, 2>(stream, multiprocessors, *job);
        }
    });
}

bool conv_depthwise_strip_fits(const struct conv_shape *s)
{
    const uint64_t most = 1 << 28; /* rows, columns and strips, so that 32 bits count them */
    const bool taps = s->r == s->s && (s->r == 3 || s->r == 5 || (s->r == 7 && s->stride_h == 1));
    const bool sides = s->height < most && s->width < most && s->pad_top < most &&
                       s->pad_bottom < most && s->pad_left < most && s->pad_right < most &&
                       s->batch * s->out_height * s->out_width < 16 * most - 1024;
    return taps && sides && s->stride_h == s->stride_w && s->stride_h <= 2 && s->dilation_h == 1 &&
           s->dilation_w == 1;
}
