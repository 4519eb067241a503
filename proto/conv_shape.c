#include "proto/conv_shape.h"

#include <inttypes.h>
#include <stddef.h>

#include "proto/size.h"

/* Input positions that a filter of `taps` elements covers. */
static uint64_t conv_extent(uint64_t taps, uint64_t dilation)
{
    return (taps - 1) * dilation + 1; /* below 2^62 for sizes up to CONV_DIM_MAX */
}

static void pad_same(uint64_t size, uint64_t taps, uint64_t stride, uint64_t dilation,
                     uint64_t *before, uint64_t *after)
{
    const uint64_t last = (size_blocks(size, stride) - 1) * stride;
    const uint64_t needed = last + conv_extent(taps, dilation);
    const uint64_t padding = needed > size ? needed - size : 0;
    *before = padding / 2;
    *after = padding - padding / 2;
}

void conv_shape_pad_same(struct conv_shape *shape)
{
    pad_same(shape->height, shape->r, shape->stride_h, shape->dilation_h, &shape->pad_top,
             &shape->pad_bottom);
    pad_same(shape->width, shape->s, shape->stride_w, shape->dilation_w, &shape->pad_left,
             &shape->pad_right);
}

static enum gemmd_error check_sizes(const struct conv_shape *shape, struct fault *fault)
{
    const struct {
        const char *name;
        uint64_t value, least;
    } sizes[] = {
        {"batch", shape->batch, 1},         {"channels", shape->channels, 1},
        {"height", shape->height, 1},       {"width", shape->width, 1},
        {"filters", shape->filters, 1},     {"filter_h", shape->r, 1},
        {"filter_w", shape->s, 1},          {"groups", shape->groups, 1},
        {"stride", shape->stride_h, 1},     {"stride", shape->stride_w, 1},
        {"dilation", shape->dilation_h, 1}, {"dilation", shape->dilation_w, 1},
        {"padding", shape->pad_top, 0},     {"padding", shape->pad_bottom, 0},
        {"padding", shape->pad_left, 0},    {"padding", shape->pad_right, 0},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least)
            return fault_set(fault, GEMMD_ERR_MALFORMED, sizes[i].name, "%s must be at least 1",
                             sizes[i].name);
        if (sizes[i].value > CONV_DIM_MAX)
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, sizes[i].name,
                             "%s is %" PRIu64 ", and the largest is %d", sizes[i].name,
                             sizes[i].value, CONV_DIM_MAX);
    }
    return GEMMD_OK;
}

static enum gemmd_error check_groups(const struct conv_shape *shape, struct fault *fault)
{
    if (shape->channels % shape->groups != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "groups",
                         "channels, %" PRIu64 ", must be a multiple of groups, %" PRIu64,
                         shape->channels, shape->groups);
    if (shape->filters % shape->groups != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "groups",
                         "filters, %" PRIu64 ", must be a multiple of groups, %" PRIu64,
                         shape->filters, shape->groups);
    return GEMMD_OK;
}

/* The side of the output; 0 if the filter is larger than the padded input. */
static uint64_t out_side(uint64_t padded, uint64_t extent, uint64_t stride)
{
    return extent > padded ? 0 : (padded - extent) / stride + 1;
}

enum gemmd_error conv_shape_settle(struct conv_shape *shape, struct fault *fault)
{
    enum gemmd_error code = check_sizes(shape, fault);
    if (code == GEMMD_OK)
        code = check_groups(shape, fault);
    if (code != GEMMD_OK)
        return code;
    const uint64_t height = shape->height + shape->pad_top + shape->pad_bottom;
    const uint64_t width = shape->width + shape->pad_left + shape->pad_right;
    const uint64_t rows = conv_extent(shape->r, shape->dilation_h);
    const uint64_t columns = conv_extent(shape->s, shape->dilation_w);
    shape->out_height = out_side(height, rows, shape->stride_h);
    shape->out_width = out_side(width, columns, shape->stride_w);
    if (shape->out_height == 0 || shape->out_width == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED,
                         shape->out_height == 0 ? "filter_h" : "filter_w",
                         "the filter covers %" PRIu64 " x %" PRIu64
                         " input elements, dilation included, and the padded input has only "
                         "%" PRIu64 " x %" PRIu64,
                         rows, columns, height, width);
    if (shape->out_height > CONV_PLANE_MAX / shape->out_width)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "padding",
                         "the output would have %" PRIu64 " x %" PRIu64
                         " elements in a channel, and the most is %d",
                         shape->out_height, shape->out_width, CONV_PLANE_MAX);
    const uint64_t filter[] = {shape->channels / shape->groups, shape->r, shape->s};
    uint64_t taps;
    if (!size_product(filter, 3, &taps) || taps > CONV_PLANE_MAX)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "channels",
                         "a filter would have more than %d elements", CONV_PLANE_MAX);
    return GEMMD_OK;
}

bool conv_shape_x(const struct conv_shape *shape, uint64_t *elements)
{
    const uint64_t dims[] = {shape->batch, shape->channels, shape->height, shape->width};
    return size_product(dims, 4, elements);
}

bool conv_shape_w(const struct conv_shape *shape, uint64_t *elements)
{
    const uint64_t dims[] = {shape->filters, shape->channels / shape->groups, shape->r, shape->s};
    return size_product(dims, 4, elements);
}

bool conv_shape_y(const struct conv_shape *shape, uint64_t *elements)
{
    const uint64_t dims[] = {shape->batch, shape->filters, shape->out_height, shape->out_width};
    return size_product(dims, 4, elements);
}

bool conv_shape_is_pointwise(const struct conv_shape *shape)
{
    return shape->r == 1 && shape->s == 1 && shape->groups == 1 && shape->stride_h == 1 &&
           shape->stride_w == 1 &&
           (shape->pad_top | shape->pad_bottom | shape->pad_left | shape->pad_right) == 0;
}

bool conv_shape_is_depthwise(const struct conv_shape *shape)
{
    return shape->groups == shape->channels && shape->groups > 1;
}
