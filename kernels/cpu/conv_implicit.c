/*
 * implicit - a convolution as a product whose matrix of patches exists in panels only.
 *
 * The patches of a block of pixels are packed from X to the panels that the microkernel reads, some
 * steps of k at a time, and multiplied by the filters, which a first pass packs to the workspace.
 * In NCHW a row of the product is a filter, and a column a pixel, so that pixels are neighbours in
 * the panels as in X and Y. In NHWC a row is a pixel, and its channels are neighbours along k.
 *
 * Each element is one chain in the order of k, whatever the blocks and the threads are: over
 * channels, r and s in NCHW, and over r, s and channels in NHWC.
 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ELEMENT = 4,   /* bytes of an accumulator */
    BLOCK_M = 192, /* multiples of MICROKERNEL_ROWS and _COLUMNS */
    BLOCK_N = 256,
    BLOCK_K = PANELS_DEPTH_MAX,
    FILTERS_MIN = 4,     /* of a group: fewer leave most of a panel empty */
    PIXELS_MIN = 16,     /* of an image */
    FILTER_MAX = 1 << 16 /* elements of a filter */
};

/* One thread's share of the context's scratch. */
struct implicit_scratch {
    char sums[BLOCK_M * BLOCK_N * ELEMENT];
    char patches[BLOCK_N * BLOCK_K * ELEMENT];
    char line[BLOCK_K * ELEMENT];
    char bias[BLOCK_N * ELEMENT];
};

uint64_t conv_implicit_scratch_bytes(void)
{
    return size_blocks(sizeof(struct implicit_scratch), 64) * 64;
}

struct implicit_job {
    const struct conv_problem *problem;
    const struct microkernel *micro;
    struct conv_strides x, w, y;
    char *weights;              /* [groups][blocks of k][panels][steps of k][width] */
    bool channels_last;         /* of X and Y */
    uint64_t k, pixels;         /* elements of a filter; pixels of an image of Y */
    uint64_t filters, channels; /* of a group */
    uint64_t width;             /* filters of a panel */
    uint64_t block_filters, block_pixels;
    uint64_t filter_blocks, pixel_blocks, k_blocks; /* of a group of an image */
};

static struct implicit_job implicit_job_of(const struct conv_problem *p, void *workspace)
{
    const struct conv_shape *s = &p->shape;
    struct implicit_job job = {
        .problem = p,
        .micro = microkernel_for(dtype_accumulator(p->dtype), 0),
        .x = conv_strides_x(p),
        .w = conv_strides_w(p),
        .y = conv_strides_y(p),
        .weights = workspace,
        .channels_last = s->layout == CONV_NHWC,
        .k = s->channels / s->groups * s->r * s->s,
        .pixels = s->out_height * s->out_width,
        .filters = s->filters / s->groups,
        .channels = s->channels / s->groups,
    };
    job.width = job.channels_last ? job.micro->columns : job.micro->rows;
    job.block_filters = job.channels_last ? BLOCK_N : BLOCK_M;
    job.block_pixels = job.channels_last ? BLOCK_M : BLOCK_N;
    job.filter_blocks = size_blocks(job.filters, job.block_filters);
    job.pixel_blocks = size_blocks(job.pixels, job.block_pixels);
    job.k_blocks = size_blocks(job.k, BLOCK_K);
    return job;
}

/* The filters of a group, up to whole panels. */
static uint64_t whole_filters(const struct implicit_job *job)
{
    return size_blocks(job->filters, job->width) * job->width;
}

static bool conv_implicit_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    const struct conv_shape *s = &p->shape;
    return conv_problem_offered(problem) && s->filters / s->groups >= FILTERS_MIN &&
           s->out_height * s->out_width >= PIXELS_MIN &&
           s->channels / s->groups * s->r * s->s <= FILTER_MAX;
}

static bool conv_implicit_workspace_bytes(const void *problem, uint64_t *bytes)
{
    const struct conv_problem *p = problem;
    const struct implicit_job job = implicit_job_of(p, NULL);
    return size_mul(whole_filters(&job), job.k * ELEMENT, bytes) &&
           size_mul(*bytes, p->shape.groups, bytes);
}

/* ---- packing ---- */

/* The elements of a filter from step `first` of k on, in the order of k. */
struct filters_argument {
    const struct implicit_job *job;
    uint64_t group;
};

static const void *read_filter(const void *argument, uint64_t line, uint64_t first, uint64_t count,
                               void *to)
{
    const struct filters_argument *a = argument;
    const struct implicit_job *job = a->job;
    const struct conv_shape *s = &job->problem->shape;
    const enum gemmd_dtype dtype = job->problem->dtype;
    const uint64_t size = dtype_size(dtype), taps = s->r * s->s;
    const char *w =
        (const char *)job->problem->w + (a->group * job->filters + line) * job->w.image * size;
    if (job->channels_last == (s->w_layout == CONV_KRSC) && conv_w_is_contiguous(job->problem))
        return convert_widened(dtype, w + first * size, to, count);
    char gathered[BLOCK_K * ELEMENT];
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t k = first + i;
        const uint64_t tap = job->channels_last ? k / job->channels : k % taps;
        const uint64_t channel = job->channels_last ? k % job->channels : k / taps;
        memcpy(
            gathered + i * size,
            w + (tap / s->s * job->w.row + tap % s->s * job->w.column + channel * job->w.channel) *
                    size,
            size);
    }
    convert_widen(dtype, gathered, to, count);
    return to;
}

struct patches_argument {
    const struct implicit_job *job;
    uint64_t image, group;
    char *line; /* BLOCK_K elements */
};

static const char *input_at(const struct patches_argument *a, uint64_t channel, uint64_t row,
                            uint64_t column)
{
    const struct implicit_job *job = a->job;
    return (const char *)job->problem->x +
           (a->image * job->x.image + (a->group * job->channels + channel) * job->x.channel +
            row * job->x.row + column * job->x.column) *
               dtype_size(job->problem->dtype);
}

/* NHWC: the elements of a pixel's patch from step `first` of k on. */
static const void *read_patch(const void *argument, uint64_t pixel, uint64_t first, uint64_t count,
                              void *to)
{
    const struct patches_argument *a = argument;
    const struct conv_shape *s = &a->job->problem->shape;
    const enum gemmd_dtype dtype = a->job->problem->dtype;
    const uint64_t channels = a->job->channels;
    const uint64_t y = pixel / s->out_width * s->stride_h;
    const uint64_t x = pixel % s->out_width * s->stride_w;
    for (uint64_t done = 0, step; done < count; done += step) {
        const uint64_t tap = (first + done) / channels, channel = (first + done) % channels;
        const uint64_t row = y + tap / s->s * s->dilation_h - s->pad_top;
        const uint64_t column = x + tap % s->s * s->dilation_w - s->pad_left;
        const bool inside = row < s->height && column < s->width; /* before X: has wrapped */
        char *at = (char *)to + done * ELEMENT;
        step = channels - channel < count - done ? channels - channel : count - done;
        if (inside && step == count)
            return convert_widened(dtype, input_at(a, channel, row, column), to, count);
        if (inside)
            convert_widen(dtype, input_at(a, channel, row, column), at, step);
        else
            memset(at, 0, step * ELEMENT);
    }
    return to;
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

/* Writes step `k` of `count` neighbouring pixels of a row of Y, from column `first` on. */
static void read_row(const struct patches_argument *a, const char *plane, uint64_t row,
                     uint64_t tap_column, uint64_t first, uint64_t count, char *to)
{
    const struct conv_problem *p = a->job->problem;
    const struct conv_shape *s = &p->shape;
    const uint64_t size = dtype_size(p->dtype), start = first * s->stride_w + tap_column;
    if (row >= s->height) {
        memset(to, 0, count * ELEMENT);
        return;
    }
    uint64_t before = start < s->pad_left ? size_blocks(s->pad_left - start, s->stride_w) : 0;
    before = before < count ? before : count;
    const uint64_t column = start + before * s->stride_w - s->pad_left;
    uint64_t inside =
        before < count && column < s->width ? (s->width - column - 1) / s->stride_w + 1 : 0;
    inside = inside < count - before ? inside : count - before;
    const char *from = plane + (row * s->width + column) * size;
    for (uint64_t i = 0; i < before * ELEMENT; i++)
        to[i] = 0;
    to += before * ELEMENT;
    if (s->stride_w == 1) {
        convert_widen(p->dtype, from, to, inside);
    } else if (size == ELEMENT) {
        copy_apart(from, s->stride_w, size, to, inside);
    } else {
        copy_apart(from, s->stride_w, size, a->line, inside);
        convert_widen(p->dtype, a->line, to, inside);
    }
    for (uint64_t i = inside * ELEMENT; i < (count - before) * ELEMENT; i++)
        to[i] = 0;
}

/* Whether each pixel of Y is computed from the pixel of X at the same place. */
static bool has_pixels_of_x(const struct conv_shape *s)
{
    return s->r == 1 && s->s == 1 && s->stride_h == 1 && s->stride_w == 1 &&
           s->height == s->out_height && s->width == s->out_width && s->pad_top == 0 &&
           s->pad_left == 0;
}

/* NCHW: step `k` of the pixels from `first` on. */
static const void *read_pixels(const void *argument, uint64_t k, uint64_t first, uint64_t count,
                               void *to)
{
    const struct patches_argument *a = argument;
    const struct conv_shape *s = &a->job->problem->shape;
    const uint64_t taps = s->r * s->s, tap = k % taps;
    const char *plane = input_at(a, k / taps, 0, 0);
    if (has_pixels_of_x(s))
        return convert_widened(a->job->problem->dtype,
                               plane + first * dtype_size(a->job->problem->dtype), to, count);
    uint64_t y = first / s->out_width, x = first % s->out_width;
    for (uint64_t done = 0, step; done < count; done += step, y++, x = 0) {
        step = s->out_width - x < count - done ? s->out_width - x : count - done;
        read_row(a, plane, y * s->stride_h + tap / s->s * s->dilation_h - s->pad_top,
                 tap % s->s * s->dilation_w, x, step, (char *)to + done * ELEMENT);
    }
    return to;
}

/* ---- blocks ---- */

/* Problems of a group, and the first part of each. */
struct implicit_set {
    struct cpu_context *context;
    uint32_t count;
    uint64_t starts[CPU_SET_PROBLEMS + 1];
    struct implicit_job jobs[CPU_SET_PROBLEMS];
};

/* The packed filters of a group from `filter` on, which begins a panel, for steps of k from first_k
 * on, which begins a block of `depth` steps. */
static char *weights_at(const struct implicit_job *job, uint64_t group, uint64_t first_k,
                        uint64_t depth, uint64_t filter)
{
    const uint64_t whole = whole_filters(job);
    return job->weights + (group * whole * job->k + first_k * whole + filter * depth) * ELEMENT;
}

/* Packs a block of filters of a group, some steps of k of them. */
static void pack_filters(void *argument, uint64_t part, uint32_t member)
{
    const struct implicit_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct implicit_job *job = &set->jobs[number];
    const uint64_t index = part - set->starts[number];
    const uint64_t filter = index % job->filter_blocks * job->block_filters;
    const uint64_t first_k = index / job->filter_blocks % job->k_blocks * BLOCK_K;
    const uint64_t group = index / job->filter_blocks / job->k_blocks;
    const uint64_t filters = job->filters - filter, depth = job->k - first_k;
    const uint64_t steps = depth < BLOCK_K ? depth : BLOCK_K;
    const struct filters_argument filters_of = {job, group};
    const struct panels_operand operand = {read_filter, &filters_of, true, ELEMENT, 1, 0};
    (void)member;
    panels_pack(&operand, filter, filters < job->block_filters ? filters : job->block_filters,
                first_k, steps, job->width, weights_at(job, group, first_k, steps, filter));
}

struct implicit_block {
    const struct implicit_job *job;
    struct implicit_scratch *scratch;
    uint64_t image, group, filter, filters, pixel, pixels;
};

/* Adds up the products of a block, in the scratch memory: [rows][BLOCK_N]. False: the computation
 * has to stop. */
static bool sum_block(const struct implicit_block *b, struct team *team)
{
    const struct implicit_job *job = b->job;
    const struct microkernel *micro = job->micro;
    const uint64_t rows = job->channels_last ? b->pixels : b->filters;
    const uint64_t columns = job->channels_last ? b->filters : b->pixels;
    const struct patches_argument patches = {job, b->image, b->group, b->scratch->line};
    const struct panels_operand operand = {
        job->channels_last ? read_patch : read_pixels, &patches, job->channels_last, ELEMENT, 1, 0};
    for (uint64_t i = 0; i < size_blocks(rows, micro->rows) * micro->rows; i++)
        memset(b->scratch->sums + i * BLOCK_N * ELEMENT, 0,
               size_blocks(columns, micro->columns) * micro->columns * ELEMENT);
    for (uint64_t first_k = 0; first_k < job->k; first_k += BLOCK_K) {
        const uint64_t depth = job->k - first_k < BLOCK_K ? job->k - first_k : BLOCK_K;
        if (first_k > 0 && team_stops(team))
            return false;
        panels_pack(&operand, b->pixel, b->pixels, first_k, depth,
                    job->channels_last ? micro->rows : micro->columns, b->scratch->patches);
        const char *weights = weights_at(job, b->group, first_k, depth, b->filter);
        const char *left = job->channels_last ? b->scratch->patches : weights;
        const char *right = job->channels_last ? weights : b->scratch->patches;
        for (uint64_t j = 0; j < columns; j += micro->columns)
            for (uint64_t i = 0; i < rows; i += micro->rows)
                micro->run(depth, left + i * depth * ELEMENT, right + j * depth * ELEMENT,
                           b->scratch->sums + (i * BLOCK_N + j) * ELEMENT, BLOCK_N, rows - i);
    }
    return true;
}

static void finish_block(const struct implicit_block *b)
{
    const struct implicit_job *job = b->job;
    const struct conv_problem *p = job->problem;
    const uint64_t size = dtype_size(p->out), rows = job->channels_last ? b->pixels : b->filters;
    const uint64_t filter = b->group * job->filters + b->filter;
    struct gemm_problem row = {
        .dtype = p->dtype,
        .out = p->out,
        .act = p->act,
        .alpha = p->alpha,
        .m = 1,
        .n = job->channels_last ? b->filters : b->pixels,
    };
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t at = job->channels_last ? (b->pixel + i) * job->y.column + filter
                                               : (filter + i) * job->y.channel + b->pixel;
        row.c = (char *)p->y + (b->image * job->y.image + at) * size;
        if (p->bias != NULL && job->channels_last)
            row.bias = (const char *)p->bias + filter * size;
        if (p->bias != NULL && !job->channels_last) { /* one for all pixels */
            for (uint64_t j = 0; j < b->pixels; j++)
                memcpy(b->scratch->bias + j * size, (const char *)p->bias + (filter + i) * size,
                       size);
            row.bias = b->scratch->bias;
        }
        epilogue_row(&row, 0, 0, 0, row.n, b->scratch->sums + i * BLOCK_N * ELEMENT);
    }
}

static void compute_block(void *argument, uint64_t part, uint32_t member)
{
    const struct implicit_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct implicit_job *job = &set->jobs[number];
    const uint64_t index = part - set->starts[number];
    const uint64_t outer = index / job->filter_blocks / job->pixel_blocks;
    struct implicit_block b = {
        .job = job,
        .scratch = (void *)((char *)set->context->scratch + member * set->context->scratch_bytes),
        .image = outer / job->problem->shape.groups,
        .group = outer % job->problem->shape.groups,
        .filter = index % job->filter_blocks * job->block_filters,
        .pixel = index / job->filter_blocks % job->pixel_blocks * job->block_pixels,
    };
    const uint64_t filters = job->filters - b.filter, pixels = job->pixels - b.pixel;
    b.filters = filters < job->block_filters ? filters : job->block_filters;
    b.pixels = pixels < job->block_pixels ? pixels : job->block_pixels;
    if (sum_block(&b, set->context->team))
        finish_block(&b);
}

static enum gemmd_error conv_implicit_run_set(struct gemm_context *base,
                                              const struct operation_member members[],
                                              uint32_t count)
{
    struct implicit_set set = {.context = cpu_context_of(base), .count = count};
    struct team *team = set.context->team;
    for (uint32_t i = 0; i < count; i++) {
        struct implicit_job *job = &set.jobs[i];
        *job = implicit_job_of(members[i].problem, members[i].workspace);
        set.starts[i + 1] =
            set.starts[i] + job->problem->shape.groups * job->k_blocks * job->filter_blocks;
    }
    team_run(team, pack_filters, &set, set.starts[count]);
    if (team_stops(team))
        return GEMMD_OK;
    for (uint32_t i = 0; i < count; i++) {
        const struct implicit_job *job = &set.jobs[i];
        const struct conv_shape *s = &job->problem->shape;
        set.starts[i + 1] =
            set.starts[i] + s->batch * s->groups * job->pixel_blocks * job->filter_blocks;
    }
    team_run(team, compute_block, &set, set.starts[count]);
    return GEMMD_OK;
}

static enum gemmd_error conv_implicit_run_group(struct gemm_context *base,
                                                const struct operation_member members[],
                                                uint32_t count)
{
    return cpu_run_in_sets(base, members, count, conv_implicit_run_set);
}

/* The kernel `product` is faster where it has nothing to gather, and for few pixels, which are not
 * worth packing the filters. Must not depend on the batch. */
static const struct operation_kernel *conv_implicit_preferred(const void *problem)
{
    enum { FEW_PIXELS = 100 };
    const struct conv_problem *p = problem;
    const bool in_place = p->shape.layout == CONV_NHWC && conv_shape_is_pointwise(&p->shape);
    const bool few = p->shape.out_height * p->shape.out_width < FEW_PIXELS;
    return in_place || few ? &conv_cpu_product : NULL;
}

const struct operation_kernel conv_cpu_implicit = {
    .name = "implicit",
    .description = "patches packed to panels, multiplied in vector registers",
    .takes = conv_implicit_takes,
    .preferred_kernel = conv_implicit_preferred,
    .workspace_bytes = conv_implicit_workspace_bytes,
    .run_group = conv_implicit_run_group,
    .group_units = 32, /* some milliseconds on two cores: larger problems gain nothing */
};
