#include "kernels/known_conv2d.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/known_answer.h"
#include "proto/dtype.h"

enum { BATCH = 2, CHANNELS = 32, HEIGHT = 6, WIDTH = 5, FILTERS = 24, TAPS = 3 };
enum {
    SIZE = 4, /* bytes of the widest type */
    X_BYTES = BATCH * CHANNELS * HEIGHT * WIDTH * SIZE,
    W_BYTES = FILTERS * CHANNELS * TAPS * TAPS * SIZE,
    BIAS_BYTES = 256,
    Y_BYTES = BATCH * CHANNELS * HEIGHT * WIDTH * SIZE /* FILTERS or CHANNELS filters */
};

static int x_at(uint64_t image, uint64_t channel, uint64_t row, uint64_t column)
{
    return (int)((3 * channel + 5 * row + 7 * column + image) % 3) - 1;
}

/* One element in 11 is not 0. */
static int w_at(uint64_t filter, uint64_t channel, uint64_t u, uint64_t v)
{
    const uint64_t place = 5 * filter + 7 * channel + 3 * u + v;
    return place % 11 == 0 ? 1 + (int)(filter % 2) : 0;
}

static int bias_at(uint64_t filter)
{
    return (int)(filter % 5) - 2;
}

static void put(enum gemmd_dtype dtype, unsigned char *to, uint64_t element, int value)
{
    known_answer_store(to + element * dtype_size(dtype), value, dtype);
}

static struct conv_shape shape_of(enum known_conv2d which)
{
    const bool pointwise = which == KNOWN_CONV2D_POINTWISE;
    const bool depthwise = which == KNOWN_CONV2D_DEPTHWISE;
    const bool first = which == KNOWN_CONV2D_NCHW;
    struct conv_shape shape = {
        .layout = first ? CONV_NCHW : CONV_NHWC,
        .w_layout = first ? CONV_KCRS : CONV_KRSC,
        .batch = BATCH,
        .channels = CHANNELS,
        .height = HEIGHT,
        .width = WIDTH,
        .filters = depthwise ? CHANNELS : FILTERS,
        .r = pointwise ? 1 : TAPS,
        .s = pointwise ? 1 : TAPS,
        .groups = depthwise ? CHANNELS : 1,
        .stride_h = 1,
        .stride_w = first ? 2 : 1,
        .dilation_h = 1,
        .dilation_w = 1,
    };
    struct fault fault;
    conv_shape_pad_same(&shape);
    (void)conv_shape_settle(&shape, &fault);
    return shape;
}

void known_conv2d_init(struct conv_problem *problem, enum gemmd_dtype dtype,
                       enum known_conv2d which, void *memory)
{
    unsigned char *x = memory, *w = x + X_BYTES, *bias = w + W_BYTES, *y = bias + BIAS_BYTES;
    _Static_assert(X_BYTES + W_BYTES + BIAS_BYTES + Y_BYTES <= KNOWN_CONV2D_BYTES, "all fits");
    _Static_assert(X_BYTES % 256 == 0 && W_BYTES % 256 == 0, "every part is aligned");
    *problem = (struct conv_problem){
        .dtype = dtype,
        .out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype,
        .precision = which == KNOWN_CONV2D_TF32 ? GEMM_PRECISION_TF32 : GEMM_PRECISION_FULL,
        .shape = shape_of(which),
        .alpha = 1,
        .x = x,
        .w = w,
        .bias = bias,
        .y = y,
    };
    if (dtype_size(dtype) > SIZE || dtype_size(problem->out) > SIZE)
        return; /* no kernel takes such a type */
    const struct conv_shape *s = &problem->shape;
    const struct conv_strides xs = conv_strides_x(problem), ws = conv_strides_w(problem);
    for (uint64_t i = 0; i < s->batch; i++)
        for (uint64_t c = 0; c < s->channels; c++)
            for (uint64_t row = 0; row < s->height; row++)
                for (uint64_t column = 0; column < s->width; column++)
                    put(dtype, x, i * xs.image + c * xs.channel + row * xs.row + column * xs.column,
                        x_at(i, c, row, column));
    for (uint64_t f = 0; f < s->filters; f++) {
        put(problem->out, bias, f, bias_at(f));
        for (uint64_t c = 0; c < s->channels / s->groups; c++)
            for (uint64_t u = 0; u < s->r; u++)
                for (uint64_t v = 0; v < s->s; v++)
                    put(dtype, w, f * ws.image + c * ws.channel + u * ws.row + v * ws.column,
                        w_at(f, c, u, v));
    }
    memset(y, 0xff, Y_BYTES);
}

/* What x_at and w_at give, with the channels side by side. */
struct operands {
    int8_t x[BATCH][HEIGHT][WIDTH][CHANNELS], w[CHANNELS][TAPS][TAPS][CHANNELS];
};

static void write_operands(struct operands *o)
{
    for (uint64_t c = 0; c < CHANNELS; c++) {
        for (uint64_t i = 0; i < BATCH * HEIGHT * WIDTH; i++)
            o->x[i / (HEIGHT * WIDTH)][i / WIDTH % HEIGHT][i % WIDTH][c] =
                (int8_t)x_at(i / (HEIGHT * WIDTH), c, i / WIDTH % HEIGHT, i % WIDTH);
        for (uint64_t i = 0; i < CHANNELS * TAPS * TAPS; i++)
            o->w[i / (TAPS * TAPS)][i / TAPS % TAPS][i % TAPS][c] =
                (int8_t)w_at(i / (TAPS * TAPS), c, i / TAPS % TAPS, i % TAPS);
    }
}

static int answer_at(const struct operands *o, const struct conv_shape *s, uint64_t image,
                     uint64_t filter, uint64_t row, uint64_t column)
{
    const uint64_t channels = s->channels / s->groups;
    const uint64_t first = filter / (s->filters / s->groups) * channels;
    int sum = bias_at(filter);
    for (uint64_t u = 0; u < s->r; u++)
        for (uint64_t v = 0; v < s->s; v++) {
            const uint64_t y = row * s->stride_h + u - s->pad_top;
            const uint64_t x = column * s->stride_w + v - s->pad_left;
            for (uint64_t c = 0; y < s->height && x < s->width && c < channels; c++)
                sum += o->x[image][y][x][first + c] * o->w[filter][u][v][c];
        }
    return sum;
}

bool known_conv2d_check(const void *of, uint64_t *row, uint64_t *column)
{
    const struct conv_problem *problem = of;
    const struct conv_shape *s = &problem->shape;
    struct operands operands;
    write_operands(&operands);
    const struct conv_strides ys = conv_strides_y(problem);
    const uint64_t pixels = s->out_height * s->out_width;
    for (*row = 0; *row < s->batch * pixels; ++*row)
        for (*column = 0; *column < s->filters; ++*column) {
            const uint64_t image = *row / pixels, pixel = *row % pixels;
            const uint64_t at = image * ys.image + *column * ys.channel +
                                pixel / s->out_width * ys.row + pixel % s->out_width * ys.column;
            double got;
            convert_to_f64(problem->out, (const char *)problem->y + at * dtype_size(problem->out),
                           &got, 1);
            if (got !=
                answer_at(&operands, s, image, *column, pixel / s->out_width, pixel % s->out_width))
                return false;
        }
    return true;
}
