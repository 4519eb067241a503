#include "kernels/cpu/conv_window.h"

#include <string.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ELEMENT = CONV_WINDOW_ELEMENT,
    BLOCK_CHANNELS = 16,   /* a line of the cache */
    CHANNELS_MULTIPLE = 4, /* of a smaller block, which is packed the fastest */
    PACKED = PANELS_DEPTH_MAX,
    CACHE_WAY = 4096,     /* bytes: what is so far apart has one place in the cache */
    SOME_BYTES = 4 << 20, /* of a window, if not of one row of Y */
    BYTES_MAX = 64 << 20
};

/* Sets the rows and the size of a window for `out_rows` rows of Y. Returns whether the size is
 * allowed. */
static bool window_resize(struct conv_window *window, const struct conv_shape *s, uint64_t out_rows)
{
    window->out_rows = out_rows;
    window->of_image = size_blocks(s->out_height, out_rows);
    window->rows =
        (out_rows - 1) * window->step_h + (s->r == 1 ? 1 : (s->r - 1) * s->dilation_h + 1);
    window->row = window->columns * window->pixel;
    window->plane = window->rows * window->row;
    window->group = window->in_blocks ? window->blocks * window->plane : window->channels;
    return size_mul(window->pixel * (window->in_blocks ? s->groups * window->blocks : 1),
                    window->columns, &window->bytes) &&
           size_mul(window->bytes, ELEMENT, &window->bytes) && window->bytes <= BYTES_MAX &&
           size_mul(window->bytes, window->rows, &window->bytes) && window->bytes <= BYTES_MAX;
}

static bool is_without_padding(const struct conv_shape *s)
{
    return s->pad_top == 0 && s->pad_bottom == 0 && s->pad_left == 0 && s->pad_right == 0;
}

/* Whether the cache has one place for all pixels of a row of Y in NHWC, `step_w` pixels apart. */
static bool share_a_place(const struct conv_shape *s, uint64_t step_w)
{
    return s->groups == 1 && s->channels * step_w % (CACHE_WAY / ELEMENT) == 0;
}

static bool window_in_place(struct conv_window *window, const struct conv_problem *p)
{
    const struct conv_shape *s = &p->shape;
    uint64_t elements;
    if (s->layout != CONV_NHWC || dtype_size(p->dtype) != ELEMENT || !is_without_padding(s) ||
        share_a_place(s, s->stride_w) || !size_mul(s->height * s->width, s->channels, &elements) ||
        elements > UINT32_MAX)
        return false;
    *window = (struct conv_window){
        .in_place = true,
        .out_rows = s->out_height,
        .of_image = 1,
        .rows = s->height,
        .columns = s->width,
        .channels = s->channels / s->groups,
        .blocks = 1,
        .pixel = s->channels,
        .row = s->width * s->channels,
        .group = s->channels / s->groups,
        .step_h = s->stride_h,
        .step_w = s->stride_w,
        .unit_h = 1,
        .unit_w = 1,
    };
    return true;
}

bool conv_window_of(const struct conv_problem *p, struct conv_window *window)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t channels = s->channels / s->groups;
    const uint64_t step_w = s->s == 1 ? 1 : s->stride_w; /* a window has no column in vain */
    if (window_in_place(window, p))
        return true;
    *window = (struct conv_window){
        .in_blocks = s->layout == CONV_NCHW || share_a_place(s, step_w),
        .columns = (s->out_width - 1) * step_w + (s->s == 1 ? 1 : (s->s - 1) * s->dilation_w + 1),
        .channels = channels,
        .blocks = 1,
        .pixel = s->channels,
        .step_h = s->r == 1 ? 1 : s->stride_h,
        .step_w = step_w,
        .unit_h = s->r == 1 ? s->stride_h : 1,
        .unit_w = s->s == 1 ? s->stride_w : 1,
    };
    if (window->in_blocks) {
        window->channels = channels < BLOCK_CHANNELS
                               ? size_blocks(channels, CHANNELS_MULTIPLE) * CHANNELS_MULTIPLE
                               : BLOCK_CHANNELS;
        window->blocks = size_blocks(channels, window->channels);
        window->pixel = window->channels;
    }
    window->is_joined = s->layout == CONV_NCHW && window->unit_h == 1 && window->unit_w == 1 &&
                        window->columns == s->width && is_without_padding(s);
    if (s->out_height == 0 || !window_resize(window, s, 1))
        return false;
    const uint64_t of_row = window->bytes / window->rows * window->step_h;
    const uint64_t more = window->bytes < SOME_BYTES ? (SOME_BYTES - window->bytes) / of_row : 0;
    return window_resize(window, s, more < s->out_height ? more + 1 : s->out_height);
}

uint32_t conv_window_offset(const struct conv_problem *p, const struct conv_window *window,
                            uint64_t k)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t taps = s->r * s->s, channels = s->channels / s->groups;
    const bool channels_last = s->layout == CONV_NHWC;
    const uint64_t tap = channels_last ? k / channels : k % taps;
    const uint64_t channel = channels_last ? k % channels : k / taps;
    return (uint32_t)(tap / s->s * s->dilation_h * window->row +
                      tap % s->s * s->dilation_w * window->pixel +
                      channel / window->channels * window->plane + channel % window->channels);
}

/* A row of X or of its padding, which is copied to a window. */
struct row_argument {
    const struct conv_problem *problem;
    const struct conv_window *window;
    struct conv_strides x;
    const char *image;
    uint64_t row;            /* of X; height or more: padding */
    uint64_t before, inside; /* columns of the window that are padding, and that are X's */
    uint64_t column;         /* of X, the first */
};

static void find_columns(struct row_argument *a)
{
    const struct conv_shape *s = &a->problem->shape;
    const uint64_t unit = a->window->unit_w, columns = a->window->columns;
    a->before = size_blocks(s->pad_left, unit);
    if (a->row >= s->height || a->before >= columns) {
        a->before = columns;
        return;
    }
    a->column = a->before * unit - s->pad_left;
    a->inside = a->column < s->width ? (s->width - a->column - 1) / unit + 1 : 0;
    a->inside = a->inside < columns - a->before ? a->inside : columns - a->before;
}

/* Copies `count` elements that are `stride` elements apart. */
static void copy_apart(const char *from, uint64_t stride, uint64_t size, char *to, uint64_t count)
{
    if (size == 4)
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + i * 4, from + i * stride * 4, 4);
    else if (size == 2)
        for (uint64_t i = 0; i < count; i++)
            memcpy(to + i * 2, from + i * stride * 2, 2);
    else
        for (uint64_t i = 0; i < count; i++)
            to[i] = from[i * stride];
}

/* NCHW: the columns of X of one channel, from number `first` of those that are copied on. */
static const void *read_columns(const void *argument, uint64_t channel, uint64_t first,
                                uint64_t count, void *to)
{
    const struct row_argument *a = argument;
    const enum gemmd_dtype dtype = a->problem->dtype;
    const uint64_t size = dtype_size(dtype), unit = a->window->unit_w;
    const uint64_t column = a->column + first * unit;
    const char *from = a->image + (channel * a->x.channel + a->row * a->x.row + column) * size;
    char line[PACKED * ELEMENT];
    if (unit == 1)
        return convert_widened(dtype, from, to, count);
    copy_apart(from, unit, size, size == ELEMENT ? to : line, count);
    if (size != ELEMENT)
        convert_widen(dtype, line, to, count);
    return to;
}

/* NCHW: at most PACKED columns of a block of channels. */
static void copy_columns(const struct row_argument *a, uint64_t block, uint64_t first,
                         uint64_t columns, char *to)
{
    const struct conv_window *window = a->window;
    const uint64_t of_group = a->problem->shape.channels / a->problem->shape.groups;
    const uint64_t channel = block % window->blocks * window->channels, left = of_group - channel;
    const struct panels_operand operand = {read_columns, a, true, ELEMENT, 1, 0};
    panels_pack(&operand, block / window->blocks * of_group + channel,
                left < window->channels ? left : window->channels, first,
                columns < PACKED ? columns : PACKED, window->channels, to);
}

/* NCHW: a row of a window, of a block of channels. */
static void copy_block_row(const struct row_argument *a, uint64_t block, char *to)
{
    const uint64_t pixel = a->window->pixel * ELEMENT;
    memset(to, 0, a->before * pixel);
    to += a->before * pixel;
    for (uint64_t first = 0; first < a->inside; first += PACKED)
        copy_columns(a, block, first, a->inside - first, to + first * pixel);
    memset(to + a->inside * pixel, 0, (a->window->columns - a->before - a->inside) * pixel);
}

/* NHWC: `count` pixels of a block of channels, or of all, `step` bytes apart in X. */
static void copy_pixels(enum gemmd_dtype dtype, const char *from, uint64_t step, uint64_t channels,
                        char *to, uint64_t count)
{
    const uint64_t pixel = channels * ELEMENT;
    if (step == channels * dtype_size(dtype))
        convert_widen(dtype, from, to, count * channels);
    else if (channels == BLOCK_CHANNELS && dtype_size(dtype) == ELEMENT)
        for (uint64_t i = 0; i < count; i++) /* of a constant size */
            memcpy(to + i * pixel, from + i * step, BLOCK_CHANNELS * ELEMENT);
    else
        for (uint64_t i = 0; i < count; i++)
            convert_widen(dtype, from + i * step, to + i * pixel, channels);
}

/* NHWC: a row of a window, of all its blocks of channels. */
static void copy_row(const struct row_argument *a, char *to)
{
    const struct conv_window *window = a->window;
    const uint64_t channels = a->problem->shape.channels, size = dtype_size(a->problem->dtype);
    const uint64_t pixel = window->pixel * ELEMENT;
    const char *from = a->image + (a->row * a->x.row + a->column * channels) * size;
    for (uint64_t c = 0; c < channels; c += window->pixel, to += window->plane * ELEMENT) {
        char *inside = to + a->before * pixel;
        memset(to, 0, a->before * pixel);
        copy_pixels(a->problem->dtype, from + c * size, window->unit_w * channels * size,
                    window->pixel, inside, a->inside);
        memset(inside + a->inside * pixel, 0, (window->columns - a->before - a->inside) * pixel);
    }
}

/* The parts of a block of channels in NCHW: the rows of the window, or PACKED columns if the rows
 * are joined. In NHWC a part is a row of all channels. */
static uint64_t parts_of_block(const struct conv_window *window)
{
    return window->is_joined ? size_blocks(window->rows * window->columns, PACKED) : window->rows;
}

uint64_t conv_window_parts(const struct conv_problem *p, const struct conv_window *window)
{
    const uint64_t blocks = p->shape.layout == CONV_NHWC ? 1 : p->shape.groups * window->blocks;
    return parts_of_block(window) * blocks;
}

void conv_window_copy(const struct conv_problem *p, const struct conv_window *window,
                      uint64_t number, uint64_t part, char *to)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t block = part / parts_of_block(window), index = part % parts_of_block(window);
    const uint64_t row = number % window->of_image * window->out_rows * s->stride_h;
    struct row_argument argument = {.problem = p, .window = window, .x = conv_strides_x(p)};
    argument.image =
        (const char *)p->x + number / window->of_image * argument.x.image * dtype_size(p->dtype);
    to += block * window->plane * ELEMENT;
    if (window->is_joined) {
        const uint64_t left = s->height - row, first = index * PACKED;
        const uint64_t columns = (left < window->rows ? left : window->rows) * window->columns;
        argument.row = row;
        if (first < columns)
            copy_columns(&argument, block, first, columns - first,
                         to + first * window->pixel * ELEMENT);
        return;
    }
    argument.row = row + index * window->unit_h - s->pad_top; /* before X: has wrapped */
    find_columns(&argument);
    to += index * window->row * ELEMENT;
    if (s->layout == CONV_NHWC)
        copy_row(&argument, to);
    else
        copy_block_row(&argument, block, to);
}
