/*
 * depthwise - a convolution in which each channel has one filter of its own.
 *
 * Vectors run along the channels in NHWC, and along a row of Y in NCHW. Where X is not padded, and
 * has the accumulator's type and its channels last, sums read X itself. Otherwise a tile of X is
 * copied to scratch memory, widened to the accumulator's type, with the zeros of the padding, so
 * that no sum asks where its elements are. In NCHW the columns of a row are then apart by their
 * remainder of the stride, so that what a vector reads is contiguous. Each element is one chain
 * over r and s, as in `naive`.
 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/cpu/microkernel.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ELEMENT = 4,                      /* bytes of an accumulator */
    VECTOR = MICROKERNEL_COLUMNS / 2, /* elements of the widest vector */
    TAPS_MAX = 1024,
    STRIDE_MAX = 8,
    COLUMNS_MAX = 1024,        /* of a tile of Y */
    PIXELS = 8,                /* of a row in NHWC, for which all channels follow each other */
    INPUT_BYTES = 256 << 10,   /* of a tile of X */
    RESULT_BYTES = 256 << 10,  /* of a tile of Y */
    WEIGHTS_BYTES = 128 << 10, /* of the filters of a block of channels */
    PART_STEPS = 1 << 22       /* multiplications of a part, at least */
};
_Static_assert(TAPS_MAX *VECTOR *ELEMENT <= WEIGHTS_BYTES, "a vector of channels fits");

/* One thread's share of the context's scratch. */
struct depthwise_scratch {
    char x[INPUT_BYTES];
    char sums[RESULT_BYTES];
    char weights[WEIGHTS_BYTES]; /* [vectors of channels][taps][lanes] */
    char line[(COLUMNS_MAX * STRIDE_MAX + TAPS_MAX) * ELEMENT];
    char bias[COLUMNS_MAX * ELEMENT];
    uint32_t offsets[TAPS_MAX];   /* in the tile of X */
    uint32_t x_offsets[TAPS_MAX]; /* in X */
};

uint64_t conv_depthwise_scratch_bytes(void)
{
    return size_blocks(sizeof(struct depthwise_scratch), 64) * 64;
}

/* Tiles of Y, and the layout of the tiles of X. Depends on the sizes of one image only. */
struct depthwise_plan {
    bool channels_last;
    uint64_t channels;         /* of a block: 1 in NCHW, whole vectors in NHWC */
    uint64_t blocks;           /* of channels */
    uint64_t rows, columns;    /* of a tile of Y, but the last ones */
    uint64_t phase, row;       /* elements of a row of X with one remainder, and with all */
    uint64_t result_row;       /* elements of a row of sums */
    uint64_t tiles_h, tiles_w; /* of each block of an image */
};

/* The elements of a dimension of X that `count` elements of Y need. */
static uint64_t reach(uint64_t count, uint64_t stride, uint64_t taps, uint64_t dilation)
{
    return (count - 1) * stride + (taps - 1) * dilation + 1;
}

/* Sets the layout for tiles of `columns` columns. */
static void set_columns(const struct conv_shape *s, uint64_t columns, struct depthwise_plan *plan)
{
    plan->columns = columns;
    if (plan->channels_last) {
        plan->row = reach(columns, s->stride_w, s->s, s->dilation_w) * plan->channels;
        plan->result_row = columns * plan->channels;
        return;
    }
    plan->result_row = size_blocks(columns, VECTOR) * VECTOR;
    plan->phase = plan->result_row + (s->s - 1) * s->dilation_w / s->stride_w;
    plan->row = plan->phase * s->stride_w;
}

static bool tile_fits(const struct conv_shape *s, const struct depthwise_plan *plan, uint64_t rows)
{
    return reach(rows, s->stride_h, s->r, s->dilation_h) * plan->row * ELEMENT <= INPUT_BYTES &&
           rows * plan->result_row * ELEMENT <= RESULT_BYTES;
}

/* Makes the columns of a tile as few as a row needs to fit. */
static bool fit_columns(const struct conv_shape *s, struct depthwise_plan *plan)
{
    set_columns(s, s->out_width < COLUMNS_MAX ? s->out_width : COLUMNS_MAX, plan);
    while (!tile_fits(s, plan, 1)) {
        if (plan->columns == 1)
            return false;
        set_columns(s, (plan->columns + 1) / 2, plan);
    }
    return true;
}

static bool depthwise_plan_make(const struct conv_shape *s, struct depthwise_plan *plan)
{
    *plan = (struct depthwise_plan){.channels_last = s->layout == CONV_NHWC, .channels = 1};
    if (s->r > TAPS_MAX || s->s > TAPS_MAX || s->r * s->s > TAPS_MAX || s->stride_h > STRIDE_MAX ||
        s->stride_w > STRIDE_MAX || s->dilation_h > TAPS_MAX || s->dilation_w > TAPS_MAX ||
        (s->s - 1) * s->dilation_w > TAPS_MAX)
        return false;
    if (plan->channels_last) {
        const uint64_t most = WEIGHTS_BYTES / ELEMENT / (s->r * s->s) / VECTOR;
        const uint64_t vectors = size_blocks(s->channels, VECTOR);
        plan->channels = (vectors < most ? vectors : most) * VECTOR;
    }
    while (!fit_columns(s, plan)) {
        if (plan->channels <= VECTOR)
            return false;
        plan->channels = size_blocks(plan->channels / 2, VECTOR) * VECTOR;
    }
    plan->rows = 1;
    while (plan->rows < s->out_height && tile_fits(s, plan, plan->rows + 1))
        plan->rows++;
    plan->blocks = size_blocks(s->channels, plan->channels);
    plan->tiles_h = size_blocks(s->out_height, plan->rows);
    plan->tiles_w = size_blocks(s->out_width, plan->columns);
    return true;
}

static bool conv_depthwise_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    struct depthwise_plan plan;
    return conv_problem_offered(problem) && conv_shape_is_depthwise(&p->shape) &&
           p->shape.filters == p->shape.channels && depthwise_plan_make(&p->shape, &plan);
}

struct depthwise_job {
    const struct conv_problem *problem;
    struct depthwise_plan plan;
    struct conv_strides x, w, y;
    const struct microkernel *micro;
    bool is_plain;              /* sums are results as they are */
    bool reads_x;               /* sums can read X itself, where no element is padding */
    uint64_t tiles, part_tiles; /* in all, and of a part */
};

/* A tile: an image, a block of channels, and rows and columns of Y. */
struct depthwise_tile {
    const struct depthwise_job *job;
    struct depthwise_scratch *scratch;
    uint64_t image, channel, channels, row, rows, column, columns;
};

/* The part of `count` positions from `first` on, counted from the start of `pad` positions of
 * padding, that is in a dimension of X of `size`: `before` positions of padding, then `inside`. */
static void clip(uint64_t first, uint64_t count, uint64_t pad, uint64_t size, uint64_t *before,
                 uint64_t *inside)
{
    *before = first < pad ? (pad - first < count ? pad - first : count) : 0;
    const uint64_t start = first + *before - pad, left = count - *before;
    *inside = *before == count || start >= size ? 0 : size - start < left ? size - start : left;
}

/* Copies `count` pixels of a row of X, in NHWC. */
static void copy_pixels(const struct depthwise_tile *tile, const char *from, char *to,
                        uint64_t count)
{
    const struct conv_problem *p = tile->job->problem;
    const uint64_t width = tile->job->plan.channels;
    const uint64_t step = p->shape.channels * dtype_size(p->dtype);
    if (width == p->shape.channels) {
        convert_widen(p->dtype, from, to, count * width);
        return;
    }
    for (uint64_t i = 0; i < count; i++, to += width * ELEMENT) {
        convert_widen(p->dtype, from + i * step, to, tile->channels);
        memset(to + tile->channels * ELEMENT, 0, (width - tile->channels) * ELEMENT);
    }
}

/* Copies `count` columns of a row of X, in NCHW, behind `before` columns of padding. */
static void copy_columns(const struct depthwise_tile *tile, const char *from, uint64_t before,
                         uint64_t count, char *to)
{
    const struct depthwise_plan *plan = &tile->job->plan;
    const struct conv_problem *p = tile->job->problem;
    const uint64_t stride = p->shape.stride_w;
    if (stride == 1) {
        convert_widen(p->dtype, from, to + before * ELEMENT, count);
        return;
    }
    uint32_t *line = (uint32_t *)(void *)tile->scratch->line, *apart = (uint32_t *)(void *)to;
    memset(line, 0, before * ELEMENT);
    convert_widen(p->dtype, from, line + before, count);
    memset(line + before + count, 0, (plan->row - before - count) * ELEMENT);
    if (stride == 2)
        for (uint64_t i = 0; i < plan->phase; i++) {
            apart[i] = line[2 * i];
            apart[plan->phase + i] = line[2 * i + 1];
        }
    else
        for (uint64_t q = 0; q < stride; q++)
            for (uint64_t i = 0; i < plan->phase; i++)
                apart[q * plan->phase + i] = line[i * stride + q];
}

static void copy_tile(const struct depthwise_tile *tile)
{
    const struct depthwise_job *job = tile->job;
    const struct conv_shape *s = &job->problem->shape;
    const struct depthwise_plan *plan = &job->plan;
    const uint64_t first_row = tile->row * s->stride_h, first = tile->column * s->stride_w;
    const uint64_t rows = reach(tile->rows, s->stride_h, s->r, s->dilation_h);
    const uint64_t columns = reach(tile->columns, s->stride_w, s->s, s->dilation_w);
    const uint64_t row_bytes = plan->row * ELEMENT;
    const uint64_t used = plan->channels_last ? columns * plan->channels * ELEMENT : row_bytes;
    uint64_t above, rows_inside, before, inside;
    clip(first_row, rows, s->pad_top, s->height, &above, &rows_inside);
    clip(first, columns, s->pad_left, s->width, &before, &inside);
    if (inside == 0)
        rows_inside = 0;
    char *to = tile->scratch->x;
    if (rows_inside == 0)
        above = rows;
    for (uint64_t i = 0; i < above; i++, to += row_bytes)
        memset(to, 0, used);
    const uint64_t at = tile->image * job->x.image + tile->channel * job->x.channel +
                        (first_row + above - s->pad_top) * job->x.row +
                        (first + before - s->pad_left) * job->x.column;
    const uint64_t size = dtype_size(job->problem->dtype), width = plan->channels * ELEMENT;
    const char *from = (const char *)job->problem->x + at * size;
    for (uint64_t i = 0; i < rows_inside; i++, to += row_bytes, from += job->x.row * size) {
        if (plan->channels_last || s->stride_w == 1) {
            memset(to, 0, before * width);
            memset(to + (before + inside) * width, 0, used - (before + inside) * width);
        }
        if (plan->channels_last)
            copy_pixels(tile, from, to + before * width, inside);
        else
            copy_columns(tile, from, before, inside, to);
    }
    for (uint64_t i = above + rows_inside; i < rows; i++, to += row_bytes)
        memset(to, 0, used);
}

/* Arranges the filters of the tile's channels as vectors. In NCHW all lanes have the same weight.
 */
static void arrange_weights(const struct depthwise_tile *tile)
{
    const struct depthwise_job *job = tile->job;
    const struct conv_problem *p = job->problem;
    const uint64_t taps = p->shape.r * p->shape.s, size = dtype_size(p->dtype);
    const uint64_t lanes = job->micro->columns / 2;
    uint32_t *weights = (uint32_t *)(void *)tile->scratch->weights;
    uint32_t *filter = (uint32_t *)(void *)tile->scratch->line;
    if (job->plan.channels_last && tile->channels < job->plan.channels)
        memset(weights, 0, taps * job->plan.channels * ELEMENT);
    for (uint64_t c = 0; c < tile->channels; c++) {
        const char *w = (const char *)p->w + (tile->channel + c) * job->w.image * size;
        if (job->w.column == 1 && job->w.row == p->shape.s)
            convert_widen(p->dtype, w, filter, taps);
        else
            for (uint64_t t = 0; t < taps; t++)
                convert_widen(p->dtype,
                              w + (t / p->shape.s * job->w.row + t % p->shape.s * job->w.column) *
                                      size,
                              filter + t, 1);
        if (job->plan.channels_last)
            for (uint64_t t = 0; t < taps; t++)
                weights[(c / lanes * taps + t) * lanes + c % lanes] = filter[t];
        else
            for (uint64_t t = 0; t < taps; t++)
                for (uint64_t i = 0; i < lanes; i++)
                    weights[t * lanes + i] = filter[t];
    }
}

/* Finds where the elements of a tap are, from those of the first one, in bytes. */
static void find_offsets(const struct depthwise_job *job, struct depthwise_scratch *scratch)
{
    const struct conv_shape *s = &job->problem->shape;
    const struct depthwise_plan *plan = &job->plan;
    for (uint64_t u = 0; u < s->r; u++)
        for (uint64_t v = 0; v < s->s; v++) {
            const uint64_t row = u * s->dilation_h, column = v * s->dilation_w;
            const uint64_t at = plan->channels_last
                                    ? column * plan->channels
                                    : column % s->stride_w * plan->phase + column / s->stride_w;
            scratch->offsets[u * s->s + v] = (uint32_t)((row * plan->row + at) * ELEMENT);
            scratch->x_offsets[u * s->s + v] =
                (uint32_t)((row * job->x.row + column * job->x.column) * ELEMENT);
        }
}

static char *result_at(const struct depthwise_tile *tile, uint64_t channel, uint64_t row,
                       uint64_t column)
{
    const struct depthwise_job *job = tile->job;
    return (char *)job->problem->y +
           (tile->image * job->y.image + (tile->channel + channel) * job->y.channel +
            (tile->row + row) * job->y.row + (tile->column + column) * job->y.column) *
               dtype_size(job->problem->out);
}

/* The sums of a tile in NHWC, read from X if `from_x`. Those of whole vectors are stored in Y if
 * they are results as they are, and all others in the scratch memory. */
static void sum_pixels(const struct depthwise_tile *tile, bool from_x)
{
    const struct depthwise_job *job = tile->job;
    const struct depthwise_plan *plan = &job->plan;
    const struct conv_shape *s = &job->problem->shape;
    struct depthwise_scratch *scratch = tile->scratch;
    const uint64_t taps = s->r * s->s, lanes = job->micro->columns / 2;
    const uint32_t *offsets = from_x ? scratch->x_offsets : scratch->offsets;
    const uint64_t row_step = s->stride_h * (from_x ? job->x.row : plan->row) * ELEMENT;
    const uint64_t step = s->stride_w * (from_x ? job->x.column : plan->channels) * ELEMENT;
    const char *x = scratch->x;
    if (from_x)
        x = (const char *)job->problem->x +
            (tile->image * job->x.image + tile->channel +
             (tile->row * s->stride_h - s->pad_top) * job->x.row +
             (tile->column * s->stride_w - s->pad_left) * job->x.column) *
                ELEMENT;
    for (uint64_t row = 0; row < tile->rows; row++)
        for (uint64_t first = 0; first < tile->columns; first += PIXELS) {
            const uint64_t left = tile->columns - first;
            for (uint64_t c = 0; c < tile->channels; c += lanes) {
                const bool direct = job->is_plain && c + lanes <= tile->channels;
                job->micro->sum_taps(
                    taps, offsets, scratch->weights + c * taps * ELEMENT,
                    x + row * row_step + first * step + c * ELEMENT, step,
                    direct ? result_at(tile, c, row, first)
                           : scratch->sums +
                                 (row * plan->result_row + first * plan->channels + c) * ELEMENT,
                    (direct ? job->y.column : plan->channels) * ELEMENT,
                    left < PIXELS ? left : PIXELS);
            }
        }
}

/* The same in NCHW, for the rows of a column of vectors at a time. The last vector of a row ends
 * with the row, and begins within the vector before. */
static void sum_rows(const struct depthwise_tile *tile)
{
    const struct depthwise_job *job = tile->job;
    const struct depthwise_plan *plan = &job->plan;
    const struct conv_shape *s = &job->problem->shape;
    struct depthwise_scratch *scratch = tile->scratch;
    const uint64_t lanes = job->micro->columns / 2;
    const bool direct = job->is_plain && tile->columns >= lanes;
    for (uint64_t first = 0; first < tile->columns; first += lanes) {
        const uint64_t last = tile->columns < lanes ? 0 : tile->columns - lanes;
        const uint64_t column = first < last ? first : last;
        job->micro->sum_taps(s->r * s->s, scratch->offsets, scratch->weights,
                             scratch->x + column * ELEMENT, s->stride_h * plan->row * ELEMENT,
                             direct ? result_at(tile, 0, 0, column)
                                    : scratch->sums + column * ELEMENT,
                             (direct ? job->y.row : plan->result_row) * ELEMENT, tile->rows);
    }
}

/* The epilogue of `count` neighbouring sums. */
static void finish(const struct depthwise_tile *tile, const void *bias, const char *sums,
                   uint64_t count, char *y)
{
    const struct conv_problem *p = tile->job->problem;
    const struct gemm_problem row = {
        .dtype = p->dtype,
        .out = p->out,
        .act = p->act,
        .alpha = p->alpha,
        .m = 1,
        .n = count,
        .bias = bias,
        .c = y,
    };
    if (tile->job->is_plain)
        memcpy(y, sums, count * ELEMENT);
    else
        epilogue_row(&row, 0, 0, 0, count, sums);
}

/* Makes results of the sums in the scratch memory. */
static void finish_tile(const struct depthwise_tile *tile)
{
    const struct depthwise_job *job = tile->job;
    const struct conv_problem *p = job->problem;
    const uint64_t size = dtype_size(p->out), lanes = job->micro->columns / 2;
    const uint64_t along = job->plan.channels_last ? tile->channels : tile->columns;
    const uint64_t whole = job->plan.channels_last ? along / lanes * lanes
                           : along < lanes         ? 0
                                                   : along;
    const uint64_t done = job->is_plain ? whole : 0;
    const char *bias = p->bias != NULL ? (const char *)p->bias + tile->channel * size : NULL;
    if (done == along)
        return;
    if (bias != NULL && !job->plan.channels_last) { /* one for all results of a row */
        for (uint64_t i = 0; i < tile->columns; i++)
            memcpy(tile->scratch->bias + i * size, bias, size);
        bias = tile->scratch->bias;
    }
    for (uint64_t row = 0; row < tile->rows; row++) {
        const char *sums = tile->scratch->sums + row * job->plan.result_row * ELEMENT;
        if (!job->plan.channels_last)
            finish(tile, bias, sums, along, result_at(tile, 0, row, 0));
        for (uint64_t column = 0; job->plan.channels_last && column < tile->columns; column++)
            finish(tile, bias, sums + (column * job->plan.channels + done) * ELEMENT, along - done,
                   result_at(tile, done, row, column));
    }
}

/* Computes a part of a tile whose filters are arranged. */
static void compute_area(struct depthwise_tile tile, uint64_t row, uint64_t rows, uint64_t column,
                         uint64_t columns, bool from_x)
{
    if (rows == 0 || columns == 0)
        return;
    tile.row = row;
    tile.rows = rows;
    tile.column = column;
    tile.columns = columns;
    if (!from_x)
        copy_tile(&tile);
    if (tile.job->plan.channels_last)
        sum_pixels(&tile, from_x);
    else
        sum_rows(&tile);
    finish_tile(&tile);
}

/* The first position of Y from `first` on whose elements of X are all behind the padding, and the
 * first one from there on, up to `end`, that has an element behind X. */
static void find_unpadded(uint64_t first, uint64_t end, uint64_t stride, uint64_t pad,
                          uint64_t size, uint64_t extent, uint64_t *from, uint64_t *to)
{
    const uint64_t start = size_blocks(pad, stride);
    const uint64_t stop = size + pad < extent ? 0 : (size + pad - extent) / stride + 1;
    *from = start < first ? first : start < end ? start : end;
    *to = stop < *from ? *from : stop < end ? stop : end;
}

static void compute_tile(const struct depthwise_job *job, struct depthwise_scratch *scratch,
                         uint64_t number, uint64_t *arranged)
{
    const struct conv_problem *p = job->problem;
    const struct conv_shape *s = &p->shape;
    const struct depthwise_plan *plan = &job->plan;
    const uint64_t block = number / plan->tiles_w / plan->tiles_h;
    struct depthwise_tile tile = {
        .job = job,
        .scratch = scratch,
        .image = block / plan->blocks,
        .channel = block % plan->blocks * plan->channels,
    };
    const uint64_t channels = s->channels - tile.channel;
    const uint64_t row = number / plan->tiles_w % plan->tiles_h * plan->rows;
    const uint64_t column = number % plan->tiles_w * plan->columns;
    const uint64_t end = row + plan->rows < s->out_height ? row + plan->rows : s->out_height;
    const uint64_t right =
        column + plan->columns < s->out_width ? column + plan->columns : s->out_width;
    tile.channels = channels < plan->channels ? channels : plan->channels;
    if (*arranged != tile.channel) {
        arrange_weights(&tile);
        *arranged = tile.channel;
    }
    if (!job->reads_x || tile.channels % (job->micro->columns / 2) != 0) {
        compute_area(tile, row, end - row, column, right - column, false);
        return;
    }
    uint64_t top, bottom, left, inner_right;
    find_unpadded(row, end, s->stride_h, s->pad_top, s->height,
                  reach(1, s->stride_h, s->r, s->dilation_h), &top, &bottom);
    find_unpadded(column, right, s->stride_w, s->pad_left, s->width,
                  reach(1, s->stride_w, s->s, s->dilation_w), &left, &inner_right);
    compute_area(tile, row, top - row, column, right - column, false);
    compute_area(tile, top, bottom - top, column, left - column, false);
    compute_area(tile, top, bottom - top, left, inner_right - left, true);
    compute_area(tile, top, bottom - top, inner_right, right - inner_right, false);
    compute_area(tile, bottom, end - bottom, column, right - column, false);
}

/* Problems of a group, and the first part of each. */
struct depthwise_set {
    struct cpu_context *context;
    uint32_t count;
    uint64_t starts[CPU_SET_PROBLEMS + 1];
    struct depthwise_job jobs[CPU_SET_PROBLEMS];
};

static void compute_tiles(void *argument, uint64_t part, uint32_t member)
{
    const struct depthwise_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct depthwise_job *job = &set->jobs[number];
    const uint64_t first = (part - set->starts[number]) * job->part_tiles;
    struct depthwise_scratch *scratch =
        (void *)((char *)set->context->scratch + member * set->context->scratch_bytes);
    uint64_t arranged = UINT64_MAX; /* the first channel of the filters that are arranged */
    find_offsets(job, scratch);
    for (uint64_t i = first; i < first + job->part_tiles && i < job->tiles; i++)
        compute_tile(job, scratch, i, &arranged);
}

/* The microkernel with vectors of half the length for rows in NCHW that do not fill the longest
 * ones. Both have the same bits, since a processor that has the longest has FMA. */
static const struct microkernel *choose_microkernel(const struct conv_problem *p)
{
    const enum gemmd_dtype accumulator = dtype_accumulator(p->dtype);
    const struct microkernel *longest = microkernel_for(accumulator, 0);
    const bool is_short = p->shape.layout == CONV_NCHW && p->shape.out_width < VECTOR;
    return is_short && longest->columns / 2 == VECTOR ? microkernel_for(accumulator, 1) : longest;
}

/* The bytes of X from the first to the last tap of a filter, at most. */
static uint64_t filter_bytes(const struct conv_problem *p, uint64_t row)
{
    return reach(1, 1, p->shape.r, p->shape.dilation_h) * row * ELEMENT;
}

static bool is_plain(const struct conv_problem *p)
{
    const struct gemm_problem like = {
        .dtype = p->dtype, .out = p->out, .act = p->act, .alpha = p->alpha, .bias = p->bias};
    return epilogue_is_identity(&like);
}

static enum gemmd_error conv_depthwise_run_set(struct gemm_context *base,
                                               const struct operation_member members[],
                                               uint32_t count)
{
    struct depthwise_set set = {.context = cpu_context_of(base), .count = count};
    for (uint32_t i = 0; i < count; i++) {
        struct depthwise_job *job = &set.jobs[i];
        const struct conv_problem *p = members[i].problem;
        *job = (struct depthwise_job){
            .problem = p,
            .x = conv_strides_x(p),
            .w = conv_strides_w(p),
            .y = conv_strides_y(p),
            .micro = choose_microkernel(p),
            .is_plain = is_plain(p),
        };
        if (!depthwise_plan_make(&p->shape, &job->plan))
            return GEMMD_ERR_INTERNAL;
        job->reads_x = job->plan.channels_last && dtype_accumulator(p->dtype) == p->dtype &&
                       filter_bytes(p, job->x.row) <= UINT32_MAX;
        const uint64_t steps = job->plan.rows * job->plan.result_row * p->shape.r * p->shape.s;
        job->tiles = p->shape.batch * job->plan.blocks * job->plan.tiles_h * job->plan.tiles_w;
        job->part_tiles = steps < PART_STEPS ? PART_STEPS / steps : 1;
        set.starts[i + 1] = set.starts[i] + size_blocks(job->tiles, job->part_tiles);
    }
    team_run(set.context->team, compute_tiles, &set, set.starts[count]);
    return GEMMD_OK;
}

static enum gemmd_error conv_depthwise_run_group(struct gemm_context *base,
                                                 const struct operation_member members[],
                                                 uint32_t count)
{
    return cpu_run_in_sets(base, members, count, conv_depthwise_run_set);
}

const struct operation_kernel conv_cpu_depthwise = {
    .name = "depthwise",
    .description = "a filter a channel, vectors along channels or rows",
    .takes = conv_depthwise_takes,
    .workspace_bytes = operation_no_workspace, /* the context has the scratch */
    .run_group = conv_depthwise_run_group,
    .group_units = 32, /* some milliseconds on two cores: larger problems gain nothing */
};
