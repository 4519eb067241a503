/*
 * naive - each element of Y is one chain of fused multiply-adds over r, s and channels, in that
 * order, in the accumulator's type. The other kernels are compared with this kernel.
 */
#include <math.h>

#include "kernels/conv.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_context.h"
#include "kernels/cpu/cpu_epilogue.h"
#include "proto/dtype.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float load_f32(const void *from, uint64_t i)
{
    return ((const float *)from)[i];
}

INLINE float load_f16(const void *from, uint64_t i)
{
    return convert_f16_to_f32(((const uint16_t *)from)[i]);
}

INLINE float load_bf16(const void *from, uint64_t i)
{
    return convert_bf16_to_f32(((const uint16_t *)from)[i]);
}

struct conv_naive_job {
    const struct conv_problem *problem;
    struct conv_strides x, w, y;
    uint64_t group_channels, group_filters;
    uint64_t taps; /* of an element */
    bool is_long;  /* an element has so many taps that its sum asks whether to stop */
};

/* One element of Y: image, filter, row and column. */
struct place {
    uint64_t image, filter, row, column;
};

/* The element of X that a tap is multiplied with. False: the position is padding. */
INLINE bool find_input(const struct conv_shape *s, const struct place *at, uint64_t u, uint64_t v,
                       uint64_t *row, uint64_t *column)
{
    *row = at->row * s->stride_h + u * s->dilation_h;
    *column = at->column * s->stride_w + v * s->dilation_w;
    const bool inside = *row >= s->pad_top && *column >= s->pad_left &&
                        *row < s->pad_top + s->height && *column < s->pad_left + s->width;
    *row -= s->pad_top;
    *column -= s->pad_left;
    return inside;
}

/* The end of the slice of channels from `c` on. */
INLINE uint64_t slice_end(const struct conv_naive_job *job, uint64_t c)
{
    return job->group_channels - c < TEAM_PACE_STEPS ? job->group_channels : c + TEAM_PACE_STEPS;
}

/* The sum of an element of Y; incomplete if the computation has to stop. `is_long` is a constant in
 * each call, so that a short sum is a loop over all channels. */
INLINE float conv_sum_f32(const struct conv_naive_job *job, const struct place *at,
                          struct team_pace *pace, float (*load)(const void *from, uint64_t i),
                          bool is_long)
{
    const struct conv_problem *p = job->problem;
    const struct conv_shape *s = &p->shape;
    const uint64_t first = at->filter / job->group_filters * job->group_channels;
    float sum = 0;
    for (uint64_t u = 0; u < s->r; u++)
        for (uint64_t v = 0; v < s->s; v++) {
            uint64_t row, column;
            const bool inside = find_input(s, at, u, v, &row, &column);
            const uint64_t x = at->image * job->x.image + row * job->x.row +
                               column * job->x.column + first * job->x.channel;
            const uint64_t w = at->filter * job->w.image + u * job->w.row + v * job->w.column;
            for (uint64_t c = 0, end; c < job->group_channels; c = end) {
                end = is_long ? slice_end(job, c) : job->group_channels;
                if (is_long && team_pace_stops(pace, end - c))
                    return sum;
                for (uint64_t i = c; i < end; i++)
                    sum = fmaf(inside ? load(p->x, x + i * job->x.channel) : 0,
                               load(p->w, w + i * job->w.channel), sum);
            }
        }
    return sum;
}

INLINE float conv_sum_of(const struct conv_naive_job *job, const struct place *at,
                         struct team_pace *pace, float (*load)(const void *from, uint64_t i))
{
    return job->is_long ? conv_sum_f32(job, at, pace, load, true)
                        : conv_sum_f32(job, at, pace, load, false);
}

static uint32_t conv_sum_i8(const struct conv_naive_job *job, const struct place *at,
                            struct team_pace *pace)
{
    const struct conv_problem *p = job->problem;
    const struct conv_shape *s = &p->shape;
    const uint64_t first = at->filter / job->group_filters * job->group_channels;
    const int8_t *xs = p->x, *ws = p->w;
    uint32_t sum = 0;
    for (uint64_t u = 0; u < s->r; u++)
        for (uint64_t v = 0; v < s->s; v++) {
            uint64_t row, column;
            if (!find_input(s, at, u, v, &row, &column)) {
                if (job->is_long && team_pace_stops(pace, 1))
                    return sum;
                continue;
            }
            const uint64_t x = at->image * job->x.image + row * job->x.row +
                               column * job->x.column + first * job->x.channel;
            const uint64_t w = at->filter * job->w.image + u * job->w.row + v * job->w.column;
            for (uint64_t c = 0, end; c < job->group_channels; c = end) {
                end = slice_end(job, c);
                if (job->is_long && team_pace_stops(pace, end - c))
                    return sum;
                for (uint64_t i = c; i < end; i++)
                    sum += (uint32_t)(xs[x + i * job->x.channel] * ws[w + i * job->w.channel]);
            }
        }
    return sum;
}

static void compute_element(const struct conv_naive_job *job, const struct place *at,
                            struct team_pace *pace)
{
    const struct conv_problem *p = job->problem;
    const uint64_t y = at->image * job->y.image + at->filter * job->y.channel +
                       at->row * job->y.row + at->column * job->y.column;
    const uint64_t size = dtype_size(p->out);
    const struct gemm_problem element = {
        .dtype = p->dtype,
        .out = p->out,
        .act = p->act,
        .alpha = p->alpha,
        .m = 1,
        .n = 1,
        .bias = p->bias != NULL ? (const char *)p->bias + at->filter * size : NULL,
        .c = (char *)p->y + y * size,
    };
    union {
        float f32;
        uint32_t u32;
    } sum;
    switch (p->dtype) {
    case GEMMD_F32:
        sum.f32 = conv_sum_of(job, at, pace, load_f32);
        break;
    case GEMMD_F16:
        sum.f32 = conv_sum_of(job, at, pace, load_f16);
        break;
    case GEMMD_BF16:
        sum.f32 = conv_sum_of(job, at, pace, load_bf16);
        break;
    default:
        sum.u32 = conv_sum_i8(job, at, pace);
    }
    epilogue_row(&element, 0, 0, 0, 1, &sum);
}

/* Problems of a group, and the first part of each. */
struct conv_naive_set {
    struct team *team;
    uint32_t count;
    uint64_t starts[CPU_SET_PROBLEMS + 1];
    struct conv_naive_job jobs[CPU_SET_PROBLEMS];
};

/* One row of all filters of one image. */
static void compute_row(void *argument, uint64_t part, uint32_t member)
{
    const struct conv_naive_set *set = argument;
    const uint32_t number = team_problem_of(set->starts, set->count, part);
    const struct conv_naive_job *job = &set->jobs[number];
    const struct conv_shape *s = &job->problem->shape;
    const uint64_t row = part - set->starts[number];
    (void)member;
    struct team_pace pace = {.team = set->team};
    struct place at = {.image = row / s->out_height, .row = row % s->out_height};
    for (at.filter = 0; at.filter < s->filters; at.filter++)
        for (at.column = 0; at.column < s->out_width; at.column++) {
            if (team_pace_stops(&pace, job->is_long ? 1 : job->taps))
                return;
            compute_element(job, &at, &pace);
        }
}

static enum gemmd_error conv_naive_run_set(struct gemm_context *base,
                                           const struct operation_member members[], uint32_t count)
{
    struct conv_naive_set set = {.team = cpu_context_of(base)->team, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        const struct conv_problem *p = members[i].problem;
        const struct conv_shape *s = &p->shape;
        set.jobs[i] = (struct conv_naive_job){
            .problem = p,
            .x = conv_strides_x(p),
            .w = conv_strides_w(p),
            .y = conv_strides_y(p),
            .group_channels = s->channels / s->groups,
            .group_filters = s->filters / s->groups,
            .taps = s->channels / s->groups * s->r * s->s,
        };
        set.jobs[i].is_long = set.jobs[i].taps > TEAM_PACE_STEPS;
        set.starts[i + 1] = set.starts[i] + s->batch * s->out_height;
    }
    team_run(set.team, compute_row, &set, set.starts[count]);
    return GEMMD_OK;
}

static enum gemmd_error conv_naive_run_group(struct gemm_context *base,
                                             const struct operation_member members[],
                                             uint32_t count)
{
    return cpu_run_in_sets(base, members, count, conv_naive_run_set);
}

const struct operation_kernel conv_cpu_naive = {
    .name = "naive",
    .description = "one chain of multiply-adds for each element",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = conv_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run_group = conv_naive_run_group,
    .group_units = 8, /* some milliseconds on two cores */
};
