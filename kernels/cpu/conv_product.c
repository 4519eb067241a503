/*
 * product - a convolution as matrix products: a matrix of patches of X times W transposed (im2col).
 *
 * The elements of X that one pixel of Y needs are gathered to a row, in the order in which W has
 * the elements of a filter, so that W is used in place. A block of such rows is multiplied by the
 * fastest product kernel of the CPU. A pointwise convolution in NHWC is multiplied in place.
 *
 * Blocks are cut from one image and have the same numbers of rows in every image, because OpenBLAS
 * may give a row other bits in a product with another number of rows. For the same reason the
 * filters are cut by a rule that depends on the sizes of one image only: between two calls of the
 * product's kernel the computation can stop. Convolutions that share a launch are gathered
 * together, and multiplied one after another with the bits that each has alone. The workspace holds
 * one block of rows, of about BLOCK_BYTES, and one block of results where the layout is NCHW.
 *
 * K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document
 * processing", 2006.
 */
#include <string.h>

#include "kernels/conv.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/microkernel.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    BLOCK_BYTES = 8 << 20,
    ROWS_MIN = 64,
    ALIGNMENT = 64,
    CALL_STEPS = 1 << 29 /* multiplications of a call of the product's kernel, some 20 ms */
};

struct conv_product_plan {
    bool in_place;          /* X needs no gathering */
    uint64_t k;             /* elements of a filter */
    uint64_t pixels;        /* of an image of Y */
    uint64_t rows;          /* pixels of a block, but the last of an image */
    uint64_t filters;       /* of a group */
    uint64_t columns;       /* filters of a call, but the last of a block */
    uint64_t patch_bytes;   /* of a block's rows */
    uint64_t result_bytes;  /* of a block's results, NCHW only */
    uint64_t product_bytes; /* of the product's workspace */
};

/* The kernel for a product: as kernel=auto of products chooses on the CPU, but OpenBLAS for
 * products of middle size too, which follow each other here. */
static const struct operation_kernel *choose_product(const struct gemm_problem *product)
{
    if (gemm_cpu_openblas.takes(product) && microkernel_narrow(product->dtype, 0) == NULL)
        return &gemm_cpu_openblas;
    return gemm_cpu_tiled.takes(product) ? &gemm_cpu_tiled : NULL;
}

/* `rows` pixels and `columns` filters of one group, without pointers. */
static struct gemm_problem call_problem(const struct conv_problem *p,
                                        const struct conv_product_plan *plan, uint64_t rows,
                                        uint64_t columns)
{
    struct gemm_problem product = {
        .dtype = p->dtype,
        .out = p->out,
        .precision = p->precision,
        .act = p->act,
        .transb = true,
        .m = rows,
        .n = columns,
        .k = plan->k,
        .batch = 1,
        .alpha = p->alpha,
    };
    gemm_problem_contiguous(&product);
    product.ldc = p->shape.layout == CONV_NHWC ? p->shape.filters : plan->filters;
    return product;
}

static bool call_bytes(const struct conv_problem *p, const struct conv_product_plan *plan,
                       uint64_t rows, uint64_t columns, uint64_t *bytes)
{
    const struct gemm_problem product = call_problem(p, plan, rows, columns);
    const struct operation_kernel *kernel = choose_product(&product);
    uint64_t needed;
    if (kernel == NULL || !kernel->workspace_bytes(&product, &needed))
        return false;
    *bytes = needed > *bytes ? needed : *bytes;
    return size_align(*bytes, ALIGNMENT, bytes);
}

static bool block_bytes(const struct conv_problem *p, const struct conv_product_plan *plan,
                        uint64_t rows, uint64_t *bytes)
{
    const uint64_t last = plan->filters % plan->columns;
    return call_bytes(p, plan, rows, plan->columns, bytes) &&
           (last == 0 || call_bytes(p, plan, rows, last, bytes));
}

static bool conv_product_plan_make(const struct conv_problem *p, struct conv_product_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    *plan = (struct conv_product_plan){
        .in_place = conv_shape_is_pointwise(s) && s->layout == CONV_NHWC,
        .k = s->channels / s->groups * s->r * s->s,
        .pixels = s->out_height * s->out_width,
        .filters = s->filters / s->groups,
    };
    const uint64_t row_bytes = plan->k * dtype_size(p->dtype);
    const uint64_t rows = BLOCK_BYTES / row_bytes;
    plan->rows = rows < ROWS_MIN ? ROWS_MIN : rows;
    plan->rows = plan->rows < plan->pixels ? plan->rows : plan->pixels;
    const uint64_t last = plan->pixels % plan->rows, steps = plan->rows * plan->k;
    plan->columns = steps < CALL_STEPS ? CALL_STEPS / steps : 1;
    plan->columns = plan->columns < plan->filters ? plan->columns : plan->filters;
    if (!plan->in_place && (!size_mul(plan->rows, row_bytes, &plan->patch_bytes) ||
                            !size_align(plan->patch_bytes, ALIGNMENT, &plan->patch_bytes)))
        return false;
    if (s->layout == CONV_NCHW &&
        (!size_mul(plan->rows, plan->filters, &plan->result_bytes) ||
         !size_mul(plan->result_bytes, dtype_size(p->out), &plan->result_bytes) ||
         !size_align(plan->result_bytes, ALIGNMENT, &plan->result_bytes)))
        return false;
    return block_bytes(p, plan, plan->rows, &plan->product_bytes) &&
           (last == 0 || block_bytes(p, plan, last, &plan->product_bytes));
}

static bool conv_product_takes(const void *problem)
{
    struct conv_product_plan plan;
    return conv_problem_offered(problem) && conv_w_is_contiguous(problem) &&
           conv_product_plan_make(problem, &plan);
}

static bool conv_product_workspace_bytes(const void *problem, uint64_t *out)
{
    struct conv_product_plan plan;
    uint64_t bytes;
    return conv_product_plan_make(problem, &plan) &&
           size_add(plan.patch_bytes, plan.result_bytes, &bytes) &&
           size_add(bytes, plan.product_bytes, out);
}

/* A block of pixels of one image and one group. */
struct conv_block {
    const struct conv_problem *problem;
    struct conv_product_plan plan;
    uint64_t blocks; /* of the problem */
    uint64_t image, group, first, rows;
    char *patches, *results;
    void *workspace; /* of the product */
};

/* Problems of a group, of each of which one block at a time is computed. */
struct conv_set {
    struct team *team;
    struct conv_block blocks[CPU_SET_PROBLEMS];
    /* The blocks that are being computed, and the first part of each in the task that the team
     * runs. */
    uint32_t count;
    struct conv_block *active[CPU_SET_PROBLEMS];
    uint64_t starts[CPU_SET_PROBLEMS + 1];
};

/* Copies the elements of X that row `u` of a filter is multiplied with for one pixel of Y: s pixels
 * of each of `channels` channels. If the computation has to stop, the copy is incomplete. */
static void gather_taps(const struct conv_block *b, uint64_t pixel, uint64_t u, char *to,
                        struct team_pace *pace, uint64_t size)
{
    const struct conv_shape *s = &b->problem->shape;
    const uint64_t channels = s->channels / s->groups;
    const uint64_t row = pixel / s->out_width * s->stride_h + u * s->dilation_h;
    const bool row_inside = row >= s->pad_top && row < s->pad_top + s->height;
    const bool channels_last = s->layout == CONV_NHWC, to_last = s->w_layout == CONV_KRSC;
    const uint64_t column_step = channels_last ? s->channels : 1;
    const uint64_t channel_step = channels_last ? 1 : s->height * s->width;
    const char *image =
        (const char *)b->problem->x + b->image * s->channels * s->height * s->width * size;
    for (uint64_t v = 0; v < s->s; v++) {
        const uint64_t column = pixel % s->out_width * s->stride_w + v * s->dilation_w;
        const bool inside = row_inside && column >= s->pad_left && column < s->pad_left + s->width;
        const uint64_t from =
            inside ? ((row - s->pad_top) * s->width + column - s->pad_left) * column_step +
                         b->group * channels * channel_step
                   : 0;
        /* In KRSC the channels of a tap are neighbours, in KCRS they are r * s elements apart. */
        const uint64_t at = to_last ? (u * s->s + v) * channels : u * s->s + v;
        const uint64_t step = to_last ? 1 : s->r * s->s;
        if (to_last && (!inside || channels_last)) {
            if (team_pace_stops(pace, channels))
                return;
            if (inside)
                memcpy(to + at * size, image + from * size, channels * size);
            else
                memset(to + at * size, 0, channels * size);
            continue;
        }
        for (uint64_t first = 0, end; first < channels; first = end) {
            end = channels - first < TEAM_PACE_STEPS ? channels : first + TEAM_PACE_STEPS;
            if (team_pace_stops(pace, end - first))
                return;
            for (uint64_t c = first; c < end; c++) {
                char *element = to + (at + c * step) * size;
                if (inside)
                    memcpy(element, image + (from + c * channel_step) * size, size);
                else
                    memset(element, 0, size);
            }
        }
    }
}

static void gather_row(void *argument, uint64_t part, uint32_t member)
{
    const struct conv_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct conv_block *b = set->active[number];
    const uint64_t size = dtype_size(b->problem->dtype), row = part - set->starts[number];
    char *to = b->patches + row * b->plan.k * size;
    struct team_pace pace = {.team = set->team};
    (void)member;
    for (uint64_t u = 0; u < b->problem->shape.r; u++) {
        /* The size is a constant in each call, for the copies of single elements. */
        if (size == 1)
            gather_taps(b, b->first + row, u, to, &pace, 1);
        else if (size == 2)
            gather_taps(b, b->first + row, u, to, &pace, 2);
        else
            gather_taps(b, b->first + row, u, to, &pace, 4);
    }
}

/* Copies the results of one filter to their plane of Y. */
static void scatter_filter(void *argument, uint64_t part, uint32_t member)
{
    const struct conv_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct conv_block *b = set->active[number];
    const struct conv_shape *s = &b->problem->shape;
    const uint64_t size = dtype_size(b->problem->out), filter = part - set->starts[number];
    const uint64_t plane = b->image * s->filters + b->group * b->plan.filters + filter;
    char *to = (char *)b->problem->y + (plane * b->plan.pixels + b->first) * size;
    (void)member;
    for (uint64_t i = 0; i < b->rows; i++)
        memcpy(to + i * size, b->results + (i * b->plan.filters + filter) * size, size);
}

/* Multiplies the gathered rows with the filters from `first` on. */
static enum gemmd_error multiply_filters(struct gemm_context *base, const struct conv_block *b,
                                         uint64_t first)
{
    const struct conv_problem *p = b->problem;
    const struct conv_product_plan *plan = &b->plan;
    const struct conv_shape *s = &p->shape;
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    const uint64_t left = plan->filters - first;
    struct gemm_problem product =
        call_problem(p, plan, b->rows, left < plan->columns ? left : plan->columns);
    const struct operation_kernel *kernel = choose_product(&product);
    if (kernel == NULL)
        return GEMMD_ERR_INTERNAL;
    const uint64_t filter = b->group * plan->filters + first;
    const uint64_t pixel = b->image * plan->pixels + b->first;
    product.b = (const char *)p->w + filter * plan->k * size;
    product.bias = p->bias != NULL ? (const char *)p->bias + filter * out_size : NULL;
    product.a = plan->in_place ? (const char *)p->x + pixel * s->channels * size : b->patches;
    product.c = s->layout == CONV_NHWC ? (char *)p->y + (pixel * s->filters + filter) * out_size
                                       : b->results + first * out_size;
    return operation_run(kernel, base, &product, b->workspace);
}

static enum gemmd_error multiply_block(struct gemm_context *base, struct team *team,
                                       const struct conv_block *b)
{
    for (uint64_t first = 0; first < b->plan.filters; first += b->plan.columns) {
        if (team_stops(team))
            return GEMMD_OK;
        const enum gemmd_error code = multiply_filters(base, b, first);
        if (code != GEMMD_OK)
            return code;
    }
    return GEMMD_OK;
}

static bool block_open(struct conv_block *b, const struct operation_member *member)
{
    const struct conv_problem *p = member->problem;
    *b = (struct conv_block){.problem = p, .patches = member->workspace};
    if (!conv_product_plan_make(p, &b->plan))
        return false;
    b->results = b->patches + b->plan.patch_bytes;
    b->workspace = b->results + b->plan.result_bytes;
    b->blocks = p->shape.batch * p->shape.groups * size_blocks(b->plan.pixels, b->plan.rows);
    return true;
}

/* Makes `b` the block number `number` of the problem. */
static void block_seek(struct conv_block *b, uint64_t number)
{
    const uint64_t blocks = size_blocks(b->plan.pixels, b->plan.rows);
    const uint64_t groups = b->problem->shape.groups;
    b->image = number / blocks / groups;
    b->group = number / blocks % groups;
    b->first = number % blocks * b->plan.rows;
    const uint64_t left = b->plan.pixels - b->first;
    b->rows = left < b->plan.rows ? left : b->plan.rows;
}

static uint64_t gathered_rows(const struct conv_block *b)
{
    return b->plan.in_place ? 0 : b->rows;
}

static uint64_t scattered_filters(const struct conv_block *b)
{
    return b->problem->shape.layout == CONV_NCHW ? b->plan.filters : 0;
}

/* Runs the parts that each active block has of a task. */
static void run_set(struct conv_set *set, team_task *task,
                    uint64_t (*parts)(const struct conv_block *b))
{
    for (uint32_t i = 0; i < set->count; i++)
        set->starts[i + 1] = set->starts[i] + parts(set->active[i]);
    if (set->starts[set->count] > 0)
        team_run(set->team, task, set, set->starts[set->count]);
}

/* Computes block number `number` of each problem that has as many, `problems` in all. */
static enum gemmd_error compute_blocks(struct gemm_context *base, struct conv_set *set,
                                       uint32_t problems, uint64_t number)
{
    enum gemmd_error code = GEMMD_OK;
    set->count = 0;
    for (uint32_t i = 0; i < problems; i++)
        if (number < set->blocks[i].blocks) {
            block_seek(&set->blocks[i], number);
            set->active[set->count++] = &set->blocks[i];
        }
    run_set(set, gather_row, gathered_rows);
    for (uint32_t i = 0; i < set->count && code == GEMMD_OK; i++)
        code = multiply_block(base, set->team, set->active[i]);
    if (code == GEMMD_OK)
        run_set(set, scatter_filter, scattered_filters);
    return code;
}

static enum gemmd_error conv_product_run_set(struct gemm_context *base,
                                             const struct operation_member members[],
                                             uint32_t count)
{
    struct conv_set set = {.team = cpu_context_of(base)->team};
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!block_open(&set.blocks[i], &members[i]))
            return GEMMD_ERR_INTERNAL;
        most = set.blocks[i].blocks > most ? set.blocks[i].blocks : most;
    }
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t number = 0; number < most && code == GEMMD_OK && !team_stops(set.team); number++)
        code = compute_blocks(base, &set, count, number);
    return code;
}

static enum gemmd_error conv_product_run_group(struct gemm_context *base,
                                               const struct operation_member members[],
                                               uint32_t count)
{
    return cpu_run_in_sets(base, members, count, conv_product_run_set);
}

/* One filter a group is a product of one column, for which gathering is not worth its time. Must
 * not depend on the batch. */
static const struct operation_kernel *conv_product_preferred(const void *problem)
{
    const struct conv_shape *s = &((const struct conv_problem *)problem)->shape;
    return s->groups > 1 && s->filters == s->groups ? &conv_cpu_naive : NULL;
}

const struct operation_kernel conv_cpu_product = {
    .name = "product",
    .description = "gathered patches times the filters, by the kernels of products",
    .takes = conv_product_takes,
    .preferred_kernel = conv_product_preferred,
    .workspace_bytes = conv_product_workspace_bytes,
    .run_group = conv_product_run_group,
    .group_units = 32, /* some milliseconds on two cores: larger problems gain nothing */
};
