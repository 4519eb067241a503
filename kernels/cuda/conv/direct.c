/* The kernels that read X and W as they are: what each of them takes, and its launch. */
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
    const uint64_t least =
        16; /* channels and filters for which a tensor core's tile is not empty */
    return shape->groups > 1 &&
           (shape->channels / shape->groups < least || shape->filters / shape->groups < least) &&
           conv_tiled_side(shape) > 0;
}

/* The operands of `depthwise` in the workspace: X and Y with channels last if they are not, X with
 * a multiple of 4 bytes of channels. */
struct depthwise_plan {
    bool x_in_place, y_in_place;
    uint64_t channels; /* of a pixel of X */
    uint64_t x_bytes, y_bytes;
};

static bool depthwise_plan_make(const struct conv_problem *p, struct depthwise_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t size = dtype_size(p->dtype), lane = LANE_BYTES / size;
    *plan = (struct depthwise_plan){
        .x_in_place = s->layout == CONV_NHWC,
        .y_in_place = s->layout == CONV_NHWC,
        .channels = s->channels,
    };
    if (plan->x_in_place)
        return true;
    plan->channels = size_blocks(s->channels, lane) * lane;
    return size_mul(s->batch * plan->channels, s->height * s->width * size, &plan->x_bytes) &&
           size_align(plan->x_bytes, ALIGNMENT, &plan->x_bytes) &&
           conv_shape_y(s, &plan->y_bytes) &&
           size_mul(plan->y_bytes, dtype_size(p->out), &plan->y_bytes) &&
           size_align(plan->y_bytes, ALIGNMENT, &plan->y_bytes);
}

static bool depthwise_takes(const void *problem)
{
    const struct conv_problem *p = problem;
    const struct conv_shape *s = &p->shape;
    struct depthwise_plan plan;
    const uint64_t channels_max = 1 << 21; /* of a grid */
    return conv_problem_offered(p) && conv_shape_is_depthwise(s) && s->filters == s->channels &&
           s->channels <= channels_max &&
           (s->layout == CONV_NCHW || s->channels * dtype_size(p->dtype) % LANE_BYTES == 0) &&
           conv_depthwise_fits(p) && depthwise_plan_make(p, &plan);
}

static bool depthwise_workspace_bytes(const void *p, uint64_t *out)
{
    struct depthwise_plan plan;
    return depthwise_plan_make(p, &plan) && size_add(plan.x_bytes, plan.y_bytes, out);
}

static enum gemmd_error depthwise_run(struct gemm_context *context, const void *problem,
                                      void *workspace)
{
    const struct conv_problem *p = problem;
    const cudaStream_t stream = cuda_context_of(context)->stream;
    const struct conv_shape *s = &p->shape;
    struct depthwise_plan plan;
    if (!depthwise_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    struct conv_direct job = direct_of(p);
    if (plan.x_in_place)
        return conv_depthwise_launch(stream, &job);
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
        .group_step = s->filters,
        .pixel_step = s->filters,
        .image_step = s->filters * s->out_height * s->out_width,
        .element_bytes = dtype_size(p->out),
    };
    job.problem.x = x;
    job.problem.y = y;
    job.x = (struct conv_strides){s->height * s->width * plan.channels, 1, s->width * plan.channels,
                                  plan.channels};
    job.y = (struct conv_strides){s->out_height * s->out_width * s->filters, 1,
                                  s->out_width * s->filters, s->filters};
    enum gemmd_error code = conv_to_channels_last(stream, &to_last);
    if (code == GEMMD_OK)
        code = conv_depthwise_launch(stream, &job);
    return code == GEMMD_OK ? conv_to_channels_first(stream, &to_first) : code;
}

const struct operation_kernel conv_cuda_naive = {
    .name = "naive",
    .description = "one thread for each element",
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
