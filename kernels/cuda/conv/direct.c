/* The kernels that read X and W without rearranging W: which convolutions each of them takes, and
 * its launch. */
#include "kernels/cuda/context.h"
#include "kernels/cuda/conv/conv.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { ALIGNMENT = 256, LANE_BYTES = 4 };

static struct conv_direct direct_of(const void *problem)
{
    const struct conv_problem *p = problem;
    return (struct conv_direct){*p, conv_strides_x(p), conv_strides_w(p), conv_strides_y(p)};
}

static enum gemmd_error naive_run(struct gemm_context *context, const void *problem,
                                  void *workspace)
{
    (void)workspace;
    const struct conv_direct job = direct_of(problem);
    return conv_naive_launch(cuda_context_of(context)->stream, &job);
}

static bool tiled_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    return conv_problem_offered(p) && conv_tiled_side(&p->shape) > 0;
}

static enum gemmd_error tiled_run(struct gemm_context *context, const void *problem,
                                  void *workspace)
{
    (void)workspace;
    const struct conv_direct job = direct_of(problem);
    return conv_tiled_launch(cuda_context_of(context)->stream, &job);
}

bool conv_groups_are_small(const struct conv_shape *shape)
{
    const uint64_t least = 16; /* channels and filters with which tensor cores are faster */
    return shape->groups > 1 &&
           (shape->channels / shape->groups < least || shape->filters / shape->groups < least) &&
           conv_tiled_side(shape) > 0;
}

/* The operands of the depthwise kernels in the workspace: X and Y with channels last if they are
 * not, in pixels of `channels` channels, a multiple of 4. */
struct depthwise_plan {
    bool in_place;
    uint64_t channels;
    uint64_t x_bytes, y_bytes;
};

static bool depthwise_part(const struct depthwise_plan *plan, const struct conv_shape *s,
                           uint64_t pixels, uint64_t size, uint64_t *bytes)
{
    return size_mul(s->batch * plan->channels, pixels * size, bytes) &&
           size_align(*bytes, ALIGNMENT, bytes);
}

static bool depthwise_plan_make(const struct conv_problem *p, struct depthwise_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t vector = CONV_STRIP_CHANNELS;
    *plan = (struct depthwise_plan){.in_place = s->layout == CONV_NHWC, .channels = s->channels};
    if (plan->in_place)
        return true;
    plan->channels = size_blocks(s->channels, vector) * vector;
    return depthwise_part(plan, s, s->height * s->width, dtype_size(p->dtype), &plan->x_bytes) &&
           depthwise_part(plan, s, s->out_height * s->out_width, dtype_size(p->out),
                          &plan->y_bytes);
}

/* Whether a depthwise kernel takes the problem, if the channels of X in NHWC must be a multiple of
 * `multiple`. */
static bool depthwise_takes_multiple(const struct conv_problem *p, uint64_t multiple)
{
    const struct conv_shape *s = &p->shape;
    struct depthwise_plan plan;
    const uint64_t channels_max = 1 << 21; /* of a grid */
    return conv_problem_offered(p) && conv_shape_is_depthwise(s) && s->filters == s->channels &&
           s->channels <= channels_max && (s->layout == CONV_NCHW || s->channels % multiple == 0) &&
           depthwise_plan_make(p, &plan);
}

static bool depthwise_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    return depthwise_takes_multiple(p, LANE_BYTES / dtype_size(p->dtype)) && conv_depthwise_fits(p);
}

static bool depthwise_strip_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    return depthwise_takes_multiple(p, CONV_STRIP_CHANNELS) && conv_depthwise_strip_fits(&p->shape);
}

static bool depthwise_workspace_bytes(const void *p, uint64_t *out)
{
    struct depthwise_plan plan;
    return depthwise_plan_make(p, &plan) && size_add(plan.x_bytes, plan.y_bytes, out);
}

static enum gemmd_error launch_depthwise(const struct cuda_context *context,
                                         const struct conv_direct *job, bool strip)
{
    return strip ? conv_depthwise_strip_launch(context->stream, context->multiprocessors, job)
                 : conv_depthwise_launch(context->stream, job);
}

static enum gemmd_error run_depthwise(struct gemm_context *base, const struct conv_problem *p,
                                      void *workspace, bool strip)
{
    const struct cuda_context *context = cuda_context_of(base);
    const struct conv_shape *s = &p->shape;
    struct depthwise_plan plan;
    if (!depthwise_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    struct conv_direct job = direct_of(p);
    if (plan.in_place)
        return launch_depthwise(context, &job, strip);
    char *x = workspace, *y = x + plan.x_bytes;
    const struct conv_transpose to_last = {
        .from = p->x,
        .to = x,
        .images = s->batch,
        .pixels = s->height * s->width,
        .groups = 1,
        .channels = s->channels,
        .group_step = plan.channels,
        .pixel_step = plan.channels,
        .image_step = s->channels * s->height * s->width,
        .element_bytes = dtype_size(p->dtype),
    };
    const struct conv_transpose to_first = {
        .from = y,
        .to = p->y,
        .images = s->batch,
        .pixels = s->out_height * s->out_width,
        .groups = 1,
        .channels = s->filters,
        .group_step = plan.channels,
        .pixel_step = plan.channels,
        .image_step = s->filters * s->out_height * s->out_width,
        .element_bytes = dtype_size(p->out),
    };
    job.problem.x = x;
    job.problem.y = y;
    job.x = (struct conv_strides){s->height * s->width * plan.channels, 1, s->width * plan.channels,
                                  plan.channels};
    job.y = (struct conv_strides){s->out_height * s->out_width * plan.channels, 1,
                                  s->out_width * plan.channels, plan.channels};
    enum gemmd_error code = conv_to_channels_last(context->stream, &to_last);
    if (code == GEMMD_OK)
        code = launch_depthwise(context, &job, strip);
    return code == GEMMD_OK ? conv_to_channels_first(context->stream, &to_first) : code;
}

static enum gemmd_error depthwise_run(struct gemm_context *context, const void *problem,
                                      void *workspace)
{
    return run_depthwise(context, problem, workspace, false);
}

static enum gemmd_error depthwise_strip_run(struct gemm_context *context, const void *problem,
                                            void *workspace)
{
    return run_depthwise(context, problem, workspace, true);
}

const struct operation_kernel conv_cuda_naive = {
    .name = "naive",
    .description = "one thread for each element",
    .share_factor = NAIVE_SHARE_FACTOR,
    .takes = conv_problem_offered,
    .workspace_bytes = operation_no_workspace,
    .run = naive_run,
};

const struct operation_kernel conv_cuda_tiled = {
    .name = "tiled",
    .description = "tiles of X with their halo in shared memory",
    .takes = tiled_takes,
    .workspace_bytes = operation_no_workspace,
    .run = tiled_run,
};

const struct operation_kernel conv_cuda_depthwise = {
    .name = "depthwise",
    .description = "one filter for each channel, rows of X in registers",
    .takes = depthwise_takes,
    .workspace_bytes = depthwise_workspace_bytes,
    .run = depthwise_run,
};

const struct operation_kernel conv_cuda_depthwise_strip = {
    .name = "depthwise_strip",
    .description = "one filter for each channel, down the rows of X in registers",
    .takes = depthwise_strip_takes,
    .workspace_bytes = depthwise_workspace_bytes,
    .run = depthwise_strip_run,
};
