/*
 * implicit - a convolution whose sums read the pixels of X where they are in memory.
 *
 * A row of a tile of sums is a pixel of Y, and a column is a filter. The elements of X that a pixel
 * is computed from have the same distances from each other for every pixel, so that the microkernel
 * needs one list of distances, in the order of k, and the address of each row's first element; no
 * matrix of patches is made. (M. Dukhan, "The indirect convolution algorithm", 2019, has the list
 * of addresses that padding needs; here padding is copied.) A first pass packs the filters.
 *
 * X is read in place in NHWC, if its elements have the type of the sums and Y needs no padding.
 * Otherwise a part of X is copied to a window in the workspace: its elements are widened there, the
 * padding is zeros, and the channels of a pixel are neighbours, in NCHW up to 16 of them. A window
 * has some rows of an image, so that the workspace does not grow with the image. As many windows as
 * are small together are filled at a time, and then computed.
 *
 * Each element is one chain in the order of k, whatever the windows, the blocks and the threads
 * are: over channels, r and s in NCHW, and over r, s and channels in NHWC.
 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu/conv_window.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "kernels/cpu/microkernel.h"
#include "kernels/cpu/panels.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    ELEMENT = CONV_WINDOW_ELEMENT, /* bytes of an accumulator */
    BLOCK_PIXELS_MAX = 216,        /* a multiple of MICROKERNEL_ROWS */
    BLOCK_PIXELS = 192,            /* whole lines of the cache too */
    BLOCK_FILTERS = 64, /* a multiple of MICROKERNEL_COLUMNS, and at most PANELS_DEPTH_MAX */
    BLOCK_K = 1024,
    PACKED_K = PANELS_DEPTH_MAX,
    ALIGNMENT = 64,
    FILTERS_MIN = 4,         /* of a group: fewer leave most of a panel empty */
    ACROSS_MIN = 512,        /* pixels of an image, which fill panels nearly */
    PIXELS_MIN = 16,         /* of an image */
    FILTER_MAX = 1 << 16,    /* elements of a filter */
    WINDOWS_BYTES = 4 << 20, /* of the windows that are computed together, if one is not larger */
};

/* One thread's share of the context's scratch. */
struct implicit_scratch {
    /* [pixels][BLOCK_FILTERS], or [filters, up to a whole tile][BLOCK_PIXELS] */
    char sums[BLOCK_PIXELS_MAX * BLOCK_FILTERS * ELEMENT];
    char panel[PACKED_K * MICROKERNEL_COLUMNS * ELEMENT];    /* of filters, or of pixels */
    char across[BLOCK_FILTERS * BLOCK_PIXELS_MAX * ELEMENT]; /* the sums of each filter */
    char bias[BLOCK_PIXELS_MAX * ELEMENT];
    const void *lines[BLOCK_PIXELS_MAX]; /* of the rows of sums */
};

uint64_t conv_implicit_scratch_bytes(void)
{
    return size_blocks(sizeof(struct implicit_scratch), ALIGNMENT) * ALIGNMENT;
}

struct implicit_job {
    const struct conv_problem *problem;
    const struct microkernel *micro;
    struct conv_strides x, w, y;
    struct conv_window window;
    bool channels_last;                       /* of X and Y */
    bool is_across;                           /* a row of sums is a filter */
    uint64_t k;                               /* elements of a filter */
    uint64_t filters, channels;               /* of a group */
    uint64_t panels, filter_blocks, k_blocks; /* of a group; of PACKED_K steps */
    uint64_t windows, slots;                  /* of the batch; that are computed together */
    bool packs_ahead;                         /* the filters, because several blocks need them */
    uint64_t block_pixels, pixel_blocks;      /* of a window */
    char *weights;                            /* [groups][panels][k][columns of a panel] */
    uint32_t *offsets;                        /* [k] */
    char *slot;                               /* [slots] windows, unless in place */
};

/* Returns whether the kernel takes the problem. */
static bool implicit_job_of(struct implicit_job *job, const struct conv_problem *p, void *workspace)
{
    const struct conv_shape *s = &p->shape;
    *job = (struct implicit_job){
        .problem = p,
        .micro = microkernel_for(dtype_accumulator(p->dtype), 0),
        .x = conv_strides_x(p),
        .w = conv_strides_w(p),
        .y = conv_strides_y(p),
        .channels_last = s->layout == CONV_NHWC,
        .k = s->channels / s->groups * s->r * s->s,
        .filters = s->filters / s->groups,
        .channels = s->channels / s->groups,
        .weights = workspace,
    };
    if (job->filters < FILTERS_MIN || s->out_height * s->out_width < PIXELS_MIN ||
        job->k > FILTER_MAX)
        return false;
    job->is_across = !job->channels_last && conv_shape_is_pointwise(s) && job->w.channel == 1 &&
                     dtype_size(p->dtype) == ELEMENT && s->out_height * s->out_width >= ACROSS_MIN;
    if (job->is_across)
        job->window =
            (struct conv_window){.in_place = true, .out_rows = s->out_height, .of_image = 1};
    else if (!conv_window_of(p, &job->window))
        return false;
    job->panels = size_blocks(job->filters, job->micro->columns);
    job->filter_blocks = size_blocks(job->filters, BLOCK_FILTERS);
    job->k_blocks = size_blocks(job->k, PACKED_K);
    const uint64_t pixels = job->window.out_rows * s->out_width;
    job->block_pixels = pixels <= BLOCK_PIXELS_MAX ? pixels : BLOCK_PIXELS;
    job->pixel_blocks = size_blocks(pixels, job->block_pixels);
    job->windows = job->slots = s->batch * job->window.of_image;
    if (!job->window.in_place) {
        const uint64_t most = WINDOWS_BYTES / job->window.bytes;
        job->slots = most < 1 ? 1 : most < job->windows ? most : job->windows;
    }
    job->packs_ahead = !job->is_across && job->windows * job->pixel_blocks > 1;
    return true;
}

/* The bytes of the packed filters, and with the list of offsets; multiples of ALIGNMENT. */
static bool weights_bytes(const struct implicit_job *job, uint64_t *weights, uint64_t *both)
{
    const uint64_t whole = job->packs_ahead ? job->panels * job->micro->columns : 0;
    return size_mul(whole, job->k * ELEMENT, weights) &&
           size_mul(*weights, job->problem->shape.groups, weights) &&
           size_align(*weights, ALIGNMENT, weights) &&
           size_add(*weights, job->k * sizeof(uint32_t), both) &&
           size_align(*both, ALIGNMENT, both);
}

static bool conv_implicit_takes(const void *problem)
{
    struct implicit_job job;
    return conv_problem_offered(problem) && implicit_job_of(&job, problem, NULL);
}

static bool conv_implicit_workspace_bytes(const void *problem, uint64_t *bytes)
{
    struct implicit_job job;
    uint64_t weights;
    return implicit_job_of(&job, problem, NULL) && weights_bytes(&job, &weights, bytes) &&
           (job.window.in_place || size_add(*bytes, job.slots * job.window.bytes, bytes));
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
    char gathered[PACKED_K * ELEMENT];
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

/* Problems of a group, and the first part of each. */
struct implicit_set {
    struct cpu_context *context;
    uint32_t count;
    uint64_t round; /* the windows from number round * slots on are computed */
    uint64_t starts[CPU_SET_PROBLEMS + 1];
    struct implicit_job jobs[CPU_SET_PROBLEMS];
};

static struct implicit_scratch *scratch_of(const struct implicit_set *set, uint32_t member)
{
    return (void *)((char *)set->context->scratch + member * set->context->scratch_bytes);
}

/* The packed filters of a panel of a group, from step `k` on. */
static char *weights_at(const struct implicit_job *job, uint64_t group, uint64_t panel, uint64_t k)
{
    return job->weights +
           ((group * job->panels + panel) * job->k + k) * job->micro->columns * ELEMENT;
}

/* Packs at most PACKED_K steps of k of a panel of filters of a group. */
static void pack_panel(const struct implicit_job *job, uint64_t group, uint64_t panel,
                       uint64_t first_k, uint64_t depth, char *to)
{
    const uint64_t width = job->micro->columns, first = panel * width, left = job->filters - first;
    const struct filters_argument filters_of = {job, group};
    const struct panels_operand operand = {read_filter, &filters_of, true, ELEMENT, 1, 0};
    panels_pack(&operand, first, left < width ? left : width, first_k, depth, width, to);
}

/* The panels of a part of the first pass, some steps of k of one; and the offsets of these steps.
 */
static uint64_t packed_parts(const struct implicit_job *job)
{
    return job->k_blocks * (job->packs_ahead ? job->problem->shape.groups * job->panels : 1);
}

static void pack_filters(const struct implicit_job *job, uint64_t index)
{
    const uint64_t first_k = index % job->k_blocks * PACKED_K;
    const uint64_t panel = index / job->k_blocks % job->panels;
    const uint64_t group = index / job->k_blocks / job->panels, left = job->k - first_k;
    const uint64_t depth = left < PACKED_K ? left : PACKED_K;
    if (job->packs_ahead)
        pack_panel(job, group, panel, first_k, depth, weights_at(job, group, panel, first_k));
    for (uint64_t k = first_k; group == 0 && panel == 0 && k < first_k + depth; k++)
        job->offsets[k] = job->is_across ? (uint32_t)k /* of a filter */
                                         : conv_window_offset(job->problem, &job->window, k);
}

/* The filters of the first round, and windows. */
static uint64_t prepared_parts(const struct implicit_job *job, uint64_t round)
{
    const uint64_t filters = round == 0 ? packed_parts(job) : 0;
    return filters +
           (job->window.in_place ? 0 : job->slots * conv_window_parts(job->problem, &job->window));
}

static void prepare(void *argument, uint64_t part, uint32_t member)
{
    const struct implicit_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct implicit_job *job = &set->jobs[number];
    const uint64_t index = part - set->starts[number];
    const uint64_t filters = set->round == 0 ? packed_parts(job) : 0;
    if (index < filters) {
        pack_filters(job, index);
        return;
    }
    const uint64_t parts = conv_window_parts(job->problem, &job->window);
    const uint64_t slot = (index - filters) / parts, window = set->round * job->slots + slot;
    (void)member;
    if (window < job->windows)
        conv_window_copy(job->problem, &job->window, window, (index - filters) % parts,
                         job->slot + slot * job->window.bytes);
}

/* ---- blocks ---- */

static bool sums_are_results(const struct conv_problem *p)
{
    const struct gemm_problem like = {
        .dtype = p->dtype, .out = p->out, .act = p->act, .alpha = p->alpha, .bias = p->bias};
    return epilogue_is_identity(&like);
}

/* Some pixels of Y of one window, and some filters of one group. Its sums are those of the pixels,
 * a column for each filter, or those of the filters. */
struct implicit_block {
    const struct implicit_job *job;
    struct implicit_scratch *scratch;
    uint64_t image, group, filter, filters;
    uint64_t pixel, pixels; /* of the image */
    uint64_t rows, columns,
        ld;            /* of sums; from one row of sums in the scratch memory to the next */
    const char *first; /* the first element of the window's group */
    uint64_t out_row;  /* the window's first row of Y */
    bool in_y;         /* sums are results, and a row of them a part of a row of Y */
};

/* Finds the first element of X of each pixel. */
static void find_pixels(const struct implicit_block *b)
{
    const struct conv_window *window = &b->job->window;
    const uint64_t out_width = b->job->problem->shape.out_width;
    const uint64_t pixel_bytes = window->pixel * window->step_w * ELEMENT;
    uint64_t x = b->pixel % out_width;
    const char *row =
        b->first + (b->pixel / out_width - b->out_row) * window->step_h * window->row * ELEMENT;
    for (uint64_t i = 0; i < b->pixels; i++) {
        b->scratch->lines[i] = row + x * pixel_bytes;
        if (++x == out_width) {
            x = 0;
            row += window->step_h * window->row * ELEMENT;
        }
    }
}

/* Finds the line of each row of sums. Rows of the last tile that are not needed have the line of
 * the last one. */
static void find_lines(const struct implicit_block *b)
{
    const struct implicit_job *job = b->job;
    if (!job->is_across)
        find_pixels(b);
    for (uint64_t i = 0; job->is_across && i < b->rows; i++)
        b->scratch->lines[i] =
            (const char *)job->problem->w + (b->filter + i) * job->w.image * ELEMENT;
    for (uint64_t i = b->rows; i % job->micro->rows != 0; i++)
        b->scratch->lines[i] = b->scratch->lines[b->rows - 1];
}

static char *result_at(const struct implicit_block *b, uint64_t row, uint64_t column)
{
    const struct implicit_job *job = b->job;
    const uint64_t pixel = job->is_across ? column : row, filter = job->is_across ? row : column;
    return (char *)job->problem->y +
           (b->image * job->y.image + (b->pixel + pixel) * job->y.column +
            (b->group * job->filters + b->filter + filter) * job->y.channel) *
               dtype_size(job->problem->out);
}

/* The columns of a block whose panels are written to the last column, and no further. */
static uint64_t whole_columns(const struct implicit_block *b)
{
    const uint64_t width = b->job->micro->columns, rest = b->columns % width;
    return b->columns - (rest == width / MICROKERNEL_PARTS ? 0 : rest);
}

static const void *read_pixels(const void *argument, uint64_t k, uint64_t first, uint64_t count,
                               void *to)
{
    const struct implicit_block *b = argument;
    (void)count;
    (void)to;
    return b->first + (k * b->job->x.channel + b->pixel + first) * ELEMENT;
}

/* The operand of the columns from `first` on, for `depth` steps of k: filters, or the pixels of a
 * channel, which are packed if there is no whole panel of them. */
static const char *columns_at(const struct implicit_block *b, uint64_t first, uint64_t first_k,
                              uint64_t depth, uint64_t *ld)
{
    const struct implicit_job *job = b->job;
    const uint64_t width = job->micro->columns, left = b->columns - first;
    const uint64_t panel = (b->filter + first) / width;
    *ld = width;
    if (job->is_across && left < width) {
        const struct panels_operand operand = {read_pixels, b, false, ELEMENT, 1, 0};
        panels_pack(&operand, first, left, first_k, depth, width, b->scratch->panel);
    } else if (job->is_across) {
        *ld = job->x.channel;
        const char *next = read_pixels(b, first_k, first + width, width, NULL);
        for (uint64_t k = 0; k < depth; k++, next += *ld * ELEMENT) {
            __builtin_prefetch(next, 0, 2);
            __builtin_prefetch(next + (width - 1) * ELEMENT, 0, 2);
        }
        return read_pixels(b, first_k, first, width, NULL);
    } else if (job->packs_ahead) {
        return weights_at(job, b->group, panel, first_k);
    } else {
        pack_panel(job, b->group, panel, first_k, depth, b->scratch->panel);
    }
    return b->scratch->panel;
}

/* Adds up the products of a block: whole tiles in Y, if sums are results there, and others in the
 * scratch memory. False: the computation has to stop. */
static bool sum_block(const struct implicit_block *b, struct team *team)
{
    const struct implicit_job *job = b->job;
    const struct microkernel *micro = job->micro;
    const bool packs = !job->packs_ahead && !(job->is_across && b->columns % micro->columns == 0);
    const uint64_t most = packs ? PACKED_K : BLOCK_K, columns = whole_columns(b);
    const uint64_t y_ld = job->is_across ? job->y.channel : job->y.column;
    for (uint64_t first_k = 0; first_k < job->k; first_k += most) {
        const uint64_t depth = job->k - first_k < most ? job->k - first_k : most;
        if (first_k > 0 && team_stops(team))
            return false;
        for (uint64_t j = 0; j < b->columns; j += micro->columns) {
            uint64_t ld;
            const char *right = columns_at(b, j, first_k, depth, &ld);
            for (uint64_t i = 0; i < b->rows; i += micro->rows) {
                const bool in_y = b->in_y && b->rows - i >= micro->rows && j < columns;
                micro->run_lines(depth, b->scratch->lines + i, job->offsets + first_k, right, ld,
                                 in_y ? result_at(b, i, j)
                                      : b->scratch->sums + (i * b->ld + j) * ELEMENT,
                                 in_y ? y_ld : b->ld, b->rows - i, b->columns - j, first_k > 0);
            }
        }
    }
    return true;
}

/* Copies the sums of tiles that are not whole to Y. */
static void copy_rest(const struct implicit_block *b)
{
    const uint64_t rows = b->rows / b->job->micro->rows * b->job->micro->rows;
    const uint64_t columns = whole_columns(b);
    for (uint64_t i = columns < b->columns ? 0 : rows; i < b->rows; i++) {
        const uint64_t first = i < rows ? columns : 0;
        memcpy(result_at(b, i, first), b->scratch->sums + (i * b->ld + first) * ELEMENT,
               (b->columns - first) * ELEMENT);
    }
}

/* Computes results of sums whose rows are parts of rows of Y: of the pixels in NHWC, and of the
 * filters in NCHW, all of whose sums have the same bias. */
static void finish_rows(const struct implicit_block *b, const char *sums, uint64_t ld)
{
    const struct conv_problem *p = b->job->problem;
    const bool of_pixels = b->job->channels_last, is_turned = b->job->is_across || of_pixels;
    const uint64_t size = dtype_size(p->out);
    const char *bias = p->bias;
    struct gemm_problem row = {.dtype = p->dtype, .out = p->out, .act = p->act, .alpha = p->alpha};
    if (bias != NULL) {
        bias += (b->group * b->job->filters + b->filter) * size;
        row.bias = of_pixels ? bias : b->scratch->bias;
    }
    for (uint64_t i = 0; i < (of_pixels ? b->pixels : b->filters); i++) {
        for (uint64_t j = 0; bias != NULL && !of_pixels && j < b->pixels; j++)
            memcpy(b->scratch->bias + j * size, bias + i * size, size);
        row.c = is_turned ? result_at(b, i, 0) : result_at(b, 0, i);
        epilogue_row(&row, 0, 0, 0, of_pixels ? b->filters : b->pixels, sums + i * ld * ELEMENT);
    }
}

static void finish_block(const struct implicit_block *b)
{
    const bool transposes = !b->job->channels_last && !b->job->is_across;
    if (b->in_y) {
        copy_rest(b);
    } else if (!transposes) {
        finish_rows(b, b->scratch->sums, b->ld);
    } else if (sums_are_results(b->job->problem)) {
        panels_transpose(b->scratch->sums, b->ld * ELEMENT, b->rows, b->columns, result_at(b, 0, 0),
                         b->job->y.channel * ELEMENT);
    } else {
        panels_transpose(b->scratch->sums, b->ld * ELEMENT, b->rows, b->columns, b->scratch->across,
                         BLOCK_PIXELS_MAX * ELEMENT);
        finish_rows(b, b->scratch->across, BLOCK_PIXELS_MAX);
    }
}

static uint64_t block_parts(const struct implicit_job *job)
{
    return job->slots * job->problem->shape.groups * job->pixel_blocks * job->filter_blocks;
}

static void compute_block(void *argument, uint64_t part, uint32_t member)
{
    const struct implicit_set *set = argument;
    const uint32_t problem = team_problem_of(set->starts, set->count, part);
    const struct implicit_job *job = &set->jobs[problem];
    const struct conv_window *window = &job->window;
    const struct conv_shape *s = &job->problem->shape;
    const uint64_t index = part - set->starts[problem];
    const uint64_t outer = index / job->filter_blocks / job->pixel_blocks;
    const uint64_t slot = outer / s->groups, number = set->round * job->slots + slot;
    if (number >= job->windows)
        return;
    struct implicit_block b = {
        .job = job,
        .scratch = scratch_of(set, member),
        .image = number / job->window.of_image,
        .group = outer % s->groups,
        .filter = index % job->filter_blocks * BLOCK_FILTERS,
        .out_row = number % job->window.of_image * window->out_rows,
    };
    const uint64_t rows = s->out_height - b.out_row;
    const uint64_t end =
        (b.out_row + (rows < window->out_rows ? rows : window->out_rows)) * s->out_width;
    b.pixel = b.out_row * s->out_width +
              index / job->filter_blocks % job->pixel_blocks * job->block_pixels;
    if (b.pixel >= end)
        return;
    const uint64_t filters = job->filters - b.filter;
    b.filters = filters < BLOCK_FILTERS ? filters : BLOCK_FILTERS;
    b.pixels = end - b.pixel < job->block_pixels ? end - b.pixel : job->block_pixels;
    const uint64_t group = b.group * window->group * ELEMENT;
    b.first = window->in_place
                  ? (const char *)job->problem->x + b.image * job->x.image * ELEMENT + group
                  : job->slot + slot * window->bytes + group;
    b.rows = job->is_across ? b.filters : b.pixels;
    b.columns = job->is_across ? b.pixels : b.filters;
    b.ld = job->is_across ? BLOCK_PIXELS : BLOCK_FILTERS;
    b.in_y = sums_are_results(job->problem) && (job->channels_last || job->is_across);
    find_lines(&b);
    if (sum_block(&b, set->context->team))
        finish_block(&b);
}

static enum gemmd_error conv_implicit_run_set(struct gemm_context *base,
                                              const struct operation_member members[],
                                              uint32_t count)
{
    struct implicit_set set = {.context = cpu_context_of(base), .count = count};
    struct team *team = set.context->team;
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct implicit_job *job = &set.jobs[i];
        uint64_t weights, both;
        if (!implicit_job_of(job, members[i].problem, members[i].workspace) ||
            !weights_bytes(job, &weights, &both))
            return GEMMD_ERR_INTERNAL;
        job->offsets = (void *)(job->weights + weights);
        job->slot = job->weights + both;
        const uint64_t of_job = size_blocks(job->windows, job->slots);
        rounds = of_job > rounds ? of_job : rounds;
    }
    for (; set.round < rounds && !team_stops(team); set.round++) {
        for (uint32_t i = 0; i < count; i++)
            set.starts[i + 1] = set.starts[i] + prepared_parts(&set.jobs[i], set.round);
        if (set.starts[count] > 0)
            team_run(team, prepare, &set, set.starts[count]);
        if (team_stops(team))
            return GEMMD_OK;
        for (uint32_t i = 0; i < count; i++)
            set.starts[i + 1] = set.starts[i] + block_parts(&set.jobs[i]);
        team_run(team, compute_block, &set, set.starts[count]);
    }
    return GEMMD_OK;
}

static enum gemmd_error conv_implicit_run_group(struct gemm_context *base,
                                                const struct operation_member members[],
                                                uint32_t count)
{
    return cpu_run_in_sets(base, members, count, conv_implicit_run_set);
}

/* The kernel `product` is faster for operands that its products multiply as narrow as they are, if
 * it has nothing to gather, or the patches are multiplied by many filters; and in f16 if it has
 * nothing to gather. Must not depend on the batch. */
static const struct operation_kernel *conv_implicit_preferred(const void *problem)
{
    enum { FEW_PIXELS = 100, MANY_FILTERS = 256 };
    const struct conv_problem *p = problem;
    const struct conv_shape *s = &p->shape;
    const bool is_narrow = microkernel_narrow(p->dtype, 0) != NULL;
    const bool in_place = s->layout == CONV_NHWC && conv_shape_is_pointwise(s);
    const bool is_worth_it =
        s->out_height * s->out_width < FEW_PIXELS || s->filters / s->groups >= MANY_FILTERS;
    return (in_place && dtype_size(p->dtype) < ELEMENT) || (is_narrow && is_worth_it)
               ? &conv_cpu_product
               : NULL;
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
