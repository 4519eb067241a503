/*
 * implicit - the device kernels of sm90/conv as one struct operation_kernel, which takes any
 * convolution of their types.
 *
 * The device kernels read X and W with channels last, in pixels that start at multiples of 16
 * bytes. Other operands are copied to the workspace first: operands in NCHW are transposed, and
 * pixels are realigned. Y is written to the workspace first if its layout is NCHW or the filters of
 * a pixel are not a multiple of 16 bytes. A convolution with groups is a launch for each group.
 *
 * Merged taps: In a step the device kernels take 128 bytes of channels of one tap (a position of
 * the filter, kernels/conv.h), which few channels do not fill. Neighbouring taps of a filter row
 * are multiplied with neighbouring pixels, so the elements of X that a whole row of taps needs lie
 * one after another in memory. Such a row is taken as a single tap with s * channels channels if
 * that needs fewer steps. The pixels of this tap overlap and are a stride of pixels apart. X is
 * read in place if its rows have no padding. Otherwise X is copied, with its padding; the copy only
 * pays if merging halves the steps.
 *
 * Merged rows: The copy can also merge rows of taps. With a stride of 2 rows, a line of the copy
 * holds two rows of X, and its pixels have the channels of both. The next row of Y starts one line
 * further down, and two rows of taps at a time are taken as a single tap with 2 * s * channels
 * channels. For the first layer of ResNet-50, 7 x 7 on 3 channels with a stride of 2, there are 49
 * steps without merging, 7 with merged taps, and 4 with merged rows. If the rows of a filter are
 * not a multiple of the rows of a line, the last row of taps must not meet the rows of X beyond the
 * filter. For it the copy has a second line after each line, with zeros in place of these rows.
 *
 * Whether taps are merged depends on the sizes of an image and a filter only.
 */
#include <stdio.h>

#include "kernels/cuda/context.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/move/move.h"
#include "kernels/cuda/sm90/conv/estimate.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ALIGNMENT = 256,  /* of the parts of the workspace, in bytes */
    LINE_BYTES = 128, /* of channels that a step takes */
    PIECE_BYTES = 16  /* pixels start at multiples of this */
};

/* How an operand gets where the device kernel reads it. SPREAD: by conv_spread_launch. */
enum place { IN_PLACE, REALIGNED, TRANSPOSED, SPREAD };

struct implicit_plan {
    struct sm90_conv conv; /* of one group, without pointers */
    bool merged;
    /* If X is SPREAD: the copy's channels of a pixel, rows of a line, and part_rows. */
    uint64_t channels_to, rows, part_rows;
    enum place x, w, y;
    uint64_t group_channels, group_filters;
    uint64_t x_group, w_group, y_group; /* from one group to the next, in elements */
    uint64_t x_bytes, w_bytes, y_bytes; /* of the workspace */
};

/* `elements` rounded up to a multiple of 16 bytes. */
static uint64_t whole_pieces(uint64_t elements, uint64_t size)
{
    const uint64_t piece = PIECE_BYTES / size;
    return size_blocks(elements, piece) * piece;
}

/* The steps of a tap with `channels` channels. */
static uint64_t steps_of(uint64_t channels, uint64_t size)
{
    return size_blocks(channels * size, LINE_BYTES);
}

static bool workspace_part(uint64_t count, uint64_t elements, uint64_t size, uint64_t *bytes)
{
    return size_mul(count, elements, bytes) && size_mul(*bytes, size, bytes) &&
           size_align(*bytes, ALIGNMENT, bytes);
}

/* How a copy of X, with `rows` rows in a line, merges taps. */
struct merging {
    uint64_t rows;
    /* Channels of a pixel of the copy: the fewest with which the elements that a pixel of Y needs
     * start at multiples of 16 bytes. */
    uint64_t channels;
    uint64_t taps_h, steps; /* merged taps of a filter, and their steps */
};

static struct merging merging_of(const struct conv_shape *s, uint64_t size, uint64_t rows)
{
    struct merging m = {.rows = rows, .channels = s->channels, .taps_h = size_blocks(s->r, rows)};
    while (m.channels * rows * s->stride_w * size % PIECE_BYTES != 0)
        m.channels++;
    m.steps = m.taps_h * steps_of(s->s * rows * m.channels, size);
    return m;
}

static struct merging best_merging(const struct conv_shape *s, uint64_t size)
{
    const struct merging columns = merging_of(s, size, 1);
    if (s->stride_h == 1 || s->dilation_h > 1 || s->r < s->stride_h)
        return columns;
    const struct merging both = merging_of(s, size, s->stride_h);
    return both.steps < columns.steps ? both : columns;
}

/* Decides whether taps are merged, and plans X and W if they are. */
static bool plan_merged(const struct conv_problem *p, struct implicit_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    struct sm90_conv *c = &plan->conv;
    const uint64_t size = dtype_size(p->dtype);
    const uint64_t steps = s->r * s->s * steps_of(s->channels, size);
    if (s->groups > 1 || s->s == 1 || s->dilation_w > 1)
        return true;
    struct merging m = merging_of(s, size, 1);
    const bool in_place = s->layout == CONV_NHWC && s->pad_left + s->pad_right == 0 &&
                          m.channels == s->channels &&
                          s->width * s->channels * size % PIECE_BYTES == 0;
    if (!in_place)
        m = best_merging(s, size);
    if (in_place ? m.steps >= steps : 2 * m.steps > steps)
        return true;
    plan->merged = true;
    plan->channels_to = m.channels;
    plan->rows = m.rows;
    c->width = s->out_width;
    c->stride_w = c->taps_w = c->dilation_w = 1;
    c->pad_left = 0;
    c->taps_h = m.taps_h;
    if (m.rows > 1) {
        /* Lines of whole rows and, if the last row of taps does not have them all, second lines
         * with the rows that it has. The other rows must not be multiplied, not even by zero,
         * because X may be infinite or NaN there. */
        plan->part_rows = s->r % m.rows;
        const uint64_t lines = plan->part_rows != 0 ? 2 : 1;
        c->height = lines * (s->out_height - 1 + m.taps_h);
        c->stride_h = c->dilation_h = lines;
        c->last_further = lines - 1;
        c->pad_top = 0;
    }
    c->channels = s->s * m.rows * m.channels;
    c->x_pixel = s->stride_w * m.rows * m.channels;
    /* A line has all elements that its last pixel reads. */
    const uint64_t columns = (s->out_width - 1) * s->stride_w + s->s;
    c->x_row =
        in_place ? s->width * s->channels : whole_pieces(columns * m.rows * m.channels, size);
    c->x_image = c->height * c->x_row;
    plan->x = in_place ? IN_PLACE : SPREAD;
    c->w_tap = whole_pieces(c->channels, size);
    c->w_filter = m.taps_h * c->w_tap;
    plan->w = s->w_layout == CONV_KRSC && m.rows == 1 && m.channels == s->channels &&
                      c->w_tap == c->channels && conv_w_is_contiguous(p)
                  ? IN_PLACE
                  : SPREAD;
    return (plan->x == IN_PLACE || workspace_part(s->batch, c->x_image, size, &plan->x_bytes)) &&
           (plan->w == IN_PLACE || workspace_part(s->filters, c->w_filter, size, &plan->w_bytes));
}

/* Plans X and W for taps that are not merged. */
static bool plan_apart(const struct conv_problem *p, struct implicit_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    struct sm90_conv *c = &plan->conv;
    const uint64_t size = dtype_size(p->dtype), channels = plan->group_channels;
    const uint64_t whole = whole_pieces(channels, size);
    const bool fits = whole == channels;
    c->width = s->width;
    c->stride_w = s->stride_w;
    c->taps_w = s->s;
    c->dilation_w = s->dilation_w;
    c->pad_left = s->pad_left;
    c->channels = channels;
    plan->x = s->layout == CONV_NCHW ? TRANSPOSED : fits ? IN_PLACE : REALIGNED;
    plan->x_group = plan->x == IN_PLACE ? channels : whole;
    c->x_pixel = s->groups * plan->x_group;
    c->x_row = s->width * c->x_pixel;
    c->x_image = s->height * c->x_row;
    const struct conv_strides w = conv_strides_w(p);
    plan->w = w.channel == 1 && w.column * size % PIECE_BYTES == 0 ? IN_PLACE : SPREAD;
    c->w_tap = plan->w == IN_PLACE ? w.column : whole;
    c->w_filter = s->r * s->s * c->w_tap;
    plan->w_group = plan->group_filters * c->w_filter;
    return (plan->x == IN_PLACE || workspace_part(s->batch, c->x_image, size, &plan->x_bytes)) &&
           (plan->w == IN_PLACE || workspace_part(s->filters, c->w_filter, size, &plan->w_bytes));
}

/* Plans Y. */
static bool plan_result(const struct conv_problem *p, struct implicit_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t size = dtype_size(p->out), whole = whole_pieces(plan->group_filters, size);
    const uint64_t pixels = s->batch * s->out_height * s->out_width;
    plan->y = s->layout == CONV_NCHW         ? TRANSPOSED
              : whole == plan->group_filters ? IN_PLACE
                                             : REALIGNED;
    plan->y_group = plan->y == IN_PLACE ? plan->group_filters : whole;
    plan->conv.ldy = s->groups * plan->y_group;
    return plan->y == IN_PLACE || workspace_part(pixels, plan->conv.ldy, size, &plan->y_bytes);
}

static bool implicit_plan_make(const struct conv_problem *p, struct implicit_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    *plan = (struct implicit_plan){
        .rows = 1,
        .group_channels = s->channels / s->groups,
        .group_filters = s->filters / s->groups,
        .conv = {.dtype = p->dtype,
                 .out = p->out,
                 .act = p->act,
                 .alpha = p->alpha,
                 .images = s->batch,
                 .height = s->height,
                 .filters = s->filters / s->groups,
                 .taps_h = s->r,
                 .dilation_h = s->dilation_h,
                 .stride_h = s->stride_h,
                 .pad_top = s->pad_top,
                 .out_height = s->out_height,
                 .out_width = s->out_width},
    };
    return plan_merged(p, plan) && (plan->merged || plan_apart(p, plan)) && plan_result(p, plan);
}

static bool implicit_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    struct implicit_plan plan;
    const bool types = p->dtype != GEMMD_F32 || p->precision == GEMM_PRECISION_TF32;
    /* The bias of each group starts at a multiple of 16 bytes. */
    const bool groups = p->shape.groups == 1 ||
                        p->shape.filters / p->shape.groups * dtype_size(p->out) % PIECE_BYTES == 0;
    return conv_problem_offered(p) && types && groups && implicit_plan_make(p, &plan) &&
           sm90_conv_takes(&plan.conv);
}

/* A pointwise convolution is a product. Groups are launches, and tiles have 64 filters and 128
 * bytes of channels at least: small groups leave most of a tile empty. */
static const struct operation_kernel *implicit_preferred(const void *problem)
{
    const struct conv_problem *p = problem;
    if (conv_shape_is_pointwise(&p->shape))
        return &conv_cuda_product;
    return conv_groups_are_small(&p->shape) ? &conv_cuda_tiled : NULL;
}

static bool implicit_workspace_bytes(const void *p, uint64_t *out)
{
    struct implicit_plan plan;
    uint64_t bytes;
    return implicit_plan_make(p, &plan) && size_add(plan.x_bytes, plan.w_bytes, &bytes) &&
           size_add(bytes, plan.y_bytes, out);
}

static enum gemmd_error move_x(cudaStream_t stream, const struct conv_problem *p,
                               const struct implicit_plan *plan, void *to)
{
    const struct conv_shape *s = &p->shape;
    if (plan->x == SPREAD) {
        const struct conv_spread job = {
            .from = p->x,
            .to = to,
            .strides = conv_strides_x(p),
            .images = s->batch,
            .channels = s->channels,
            .height = s->height,
            .width = s->width,
            .channels_to = plan->channels_to,
            .pad_left = s->pad_left,
            .pad_top = plan->rows > 1 ? s->pad_top : 0,
            .rows = plan->rows,
            .part_rows = plan->part_rows,
            .lines = plan->conv.height,
            .line_to = plan->conv.x_row,
            .element_bytes = dtype_size(p->dtype),
        };
        return conv_spread_launch(stream, &job);
    }
    const struct conv_transpose job = {
        .from = p->x,
        .to = to,
        .images = s->batch,
        .pixels = s->height * s->width,
        .groups = s->groups,
        .channels = plan->group_channels,
        .group_step = plan->x_group,
        .pixel_step = plan->conv.x_pixel,
        .image_step = s->channels * s->height * s->width,
        .element_bytes = dtype_size(p->dtype),
    };
    const struct realign_job lines = {.from = p->x,
                                      .to = to,
                                      .rows = s->batch * s->height * s->width * s->groups,
                                      .width = plan->group_channels,
                                      .batch = 1,
                                      .ld_from = plan->group_channels,
                                      .ld_to = plan->x_group,
                                      .element_bytes = dtype_size(p->dtype)};
    return plan->x == TRANSPOSED ? conv_to_channels_last(stream, &job)
                                 : realign_launch(stream, &lines);
}

static enum gemmd_error move_w(cudaStream_t stream, const struct conv_problem *p,
                               const struct implicit_plan *plan, void *to)
{
    const struct conv_shape *s = &p->shape;
    const struct conv_spread job = {
        .from = p->w,
        .to = to,
        .strides = conv_strides_w(p),
        .images = s->filters,
        .channels = plan->group_channels,
        .height = s->r,
        .width = s->s,
        .channels_to = plan->merged ? plan->channels_to : plan->conv.w_tap,
        .rows = plan->rows,
        .lines = plan->conv.taps_h,
        .line_to = plan->merged ? plan->conv.w_tap : s->s * plan->conv.w_tap,
        .element_bytes = dtype_size(p->dtype),
    };
    return conv_spread_launch(stream, &job);
}

static enum gemmd_error move_y(cudaStream_t stream, const struct conv_problem *p,
                               const struct implicit_plan *plan, const void *from)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t pixels = s->out_height * s->out_width;
    if (plan->y == TRANSPOSED) {
        const struct conv_transpose job = {
            .from = from,
            .to = p->y,
            .images = s->batch,
            .pixels = pixels,
            .groups = s->groups,
            .channels = plan->group_filters,
            .group_step = plan->y_group,
            .pixel_step = plan->conv.ldy,
            .image_step = s->filters * pixels,
            .element_bytes = dtype_size(p->out),
        };
        return conv_to_channels_first(stream, &job);
    }
    const struct realign_job lines = {.from = from,
                                      .to = p->y,
                                      .rows = s->batch * pixels * s->groups,
                                      .width = plan->group_filters,
                                      .batch = 1,
                                      .ld_from = plan->y_group,
                                      .ld_to = plan->group_filters,
                                      .element_bytes = dtype_size(p->out)};
    return realign_launch(stream, &lines);
}

static enum gemmd_error launch_group(struct cuda_context *context, const struct conv_problem *p,
                                     const struct implicit_plan *plan,
                                     const struct sm90_kernel *kernel, uint64_t group)
{
    struct sm90_conv conv = plan->conv;
    struct sm90_conv_launch launch;
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    conv.x = (const char *)conv.x + group * plan->x_group * size;
    conv.w = (const char *)conv.w + group * plan->w_group * size;
    conv.y = (char *)conv.y + group * plan->y_group * out_size;
    if (p->bias != NULL)
        conv.bias = (const char *)p->bias + group * plan->group_filters * out_size;
    cudaError_t error =
        sm90_conv_prepare(&context->sm90, &context->sm90_conv, kernel, &conv, &launch);
    if (error == cudaSuccess)
        error = sm90_conv_enqueue(&launch, context->stream);
    return cuda_error_code((int)error);
}

enum gemmd_error conv_implicit_run_with(struct gemm_context *base, const struct sm90_kernel *kernel,
                                        const struct conv_problem *p, void *workspace)
{
    struct cuda_context *context = cuda_context_of(base);
    struct implicit_plan plan;
    if (context->sm90_conv.encode == NULL || !implicit_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    char *x = workspace, *w = x + plan.x_bytes, *y = w + plan.w_bytes;
    plan.conv.x = plan.x == IN_PLACE ? p->x : x;
    plan.conv.w = plan.w == IN_PLACE ? p->w : w;
    plan.conv.y = plan.y == IN_PLACE ? p->y : y;
    plan.conv.bias = p->bias;
    if (kernel == NULL)
        kernel = sm90_conv_choose(&plan.conv, &context->sm90.card);
    if (kernel == NULL)
        return GEMMD_ERR_INTERNAL;
    enum gemmd_error code = GEMMD_OK;
    if (plan.x != IN_PLACE)
        code = move_x(context->stream, p, &plan, x);
    if (code == GEMMD_OK && plan.w != IN_PLACE)
        code = move_w(context->stream, p, &plan, w);
    for (uint64_t group = 0; group < p->shape.groups && code == GEMMD_OK; group++)
        code = launch_group(context, p, &plan, kernel, group);
    if (code == GEMMD_OK && plan.y != IN_PLACE)
        code = move_y(context->stream, p, &plan, y);
    return code;
}

static enum gemmd_error implicit_run(struct gemm_context *context, const void *problem,
                                     void *workspace)
{
    return conv_implicit_run_with(context, NULL, problem, workspace);
}

static void implicit_tile(struct gemm_context *base, const void *of, struct operation_tile *out)
{
    const struct sm90_card *card = &cuda_context_of(base)->sm90.card;
    const struct conv_problem *p = of;
    struct implicit_plan plan;
    const struct sm90_kernel *kernel =
        implicit_plan_make(p, &plan) ? sm90_conv_choose(&plan.conv, card) : NULL;
    if (kernel == NULL)
        return;
    snprintf(out->name, sizeof out->name, "%s", kernel->name);
    out->us = (double)p->shape.groups *
              sm90_conv_estimate_us(kernel, &plan.conv, sm90_conv_rates(p->dtype), card);
}

const struct operation_kernel conv_cuda_implicit = {
    .name = "implicit",
    .description = "implicit product on the tensor cores of sm_90a, patches copied by TMA",
    .compute_capability = 90,
    .takes = implicit_takes,
    .preferred_kernel = implicit_preferred,
    .workspace_bytes = implicit_workspace_bytes,
    .run = implicit_run,
    .tile = implicit_tile,
};
