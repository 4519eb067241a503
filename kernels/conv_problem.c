/* The properties of a convolution's problem, which do not depend on the kernel. */
#include "kernels/backend.h"
#include "kernels/conv.h"
#include "proto/dtype.h"
#include "proto/size.h"

static struct conv_strides conv_strides(bool channels_last, uint64_t channels, uint64_t height,
                                        uint64_t width)
{
    const uint64_t image = channels * height * width;
    return channels_last ? (struct conv_strides){image, 1, width * channels, channels}
                         : (struct conv_strides){image, height * width, width, 1};
}

struct conv_strides conv_strides_x(const struct conv_problem *problem)
{
    const struct conv_shape *s = &problem->shape;
    return conv_strides(s->layout == CONV_NHWC, s->channels, s->height, s->width);
}

struct conv_strides conv_strides_y(const struct conv_problem *problem)
{
    const struct conv_shape *s = &problem->shape;
    return conv_strides(s->layout == CONV_NHWC, s->filters, s->out_height, s->out_width);
}

struct conv_strides conv_strides_w(const struct conv_problem *problem)
{
    const struct conv_shape *s = &problem->shape;
    const uint64_t channels = s->channels / s->groups;
    const bool channels_last = s->w_layout == CONV_KRSC;
    const uint64_t width = channels_last ? channels : s->s;
    const uint64_t row = problem->w_leading != 0 ? problem->w_leading : width;
    return channels_last ? (struct conv_strides){s->r * s->s * row, 1, s->s * row, row}
                         : (struct conv_strides){channels * s->r * row, s->r * row, row, 1};
}

bool conv_w_is_contiguous(const struct conv_problem *problem)
{
    const struct conv_shape *s = &problem->shape;
    return problem->w_leading == 0 ||
           problem->w_leading == (s->w_layout == CONV_KRSC ? s->channels / s->groups : s->s);
}

double conv_flops(const void *of)
{
    const struct conv_problem *problem = of;
    const struct conv_shape *s = &problem->shape;
    const uint64_t channels = s->channels / s->groups;
    return 2.0 * (double)s->batch * (double)s->filters * (double)s->out_height *
           (double)s->out_width * (double)channels * (double)s->r * (double)s->s;
}

struct conv_problem conv_subproblem(const struct conv_problem *problem, uint64_t first,
                                    uint64_t images)
{
    struct conv_problem part = *problem;
    const struct conv_shape *s = &problem->shape;
    const uint64_t x = s->channels * s->height * s->width;
    const uint64_t y = s->filters * s->out_height * s->out_width;
    part.shape.batch = images;
    part.x = (const char *)problem->x + first * x * dtype_size(problem->dtype);
    part.y = (char *)problem->y + first * y * dtype_size(problem->out);
    return part;
}

static bool offers_types(enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    switch (dtype) {
    case GEMMD_F32:
    case GEMMD_F16:
    case GEMMD_BF16:
        return out == dtype;
    case GEMMD_I8:
        return out == GEMMD_I32 || out == GEMMD_F32;
    default:
        return false;
    }
}

bool conv_problem_offered(const void *problem)
{
    const struct conv_problem *p = problem;
    struct conv_shape shape = p->shape;
    struct fault fault;
    uint64_t bytes;
    if (!offers_types(p->dtype, p->out) || conv_shape_settle(&shape, &fault) != GEMMD_OK ||
        !conv_shape_x(&shape, &bytes) || !size_mul(bytes, dtype_size(p->dtype), &bytes) ||
        !conv_shape_w(&shape, &bytes) || !size_mul(bytes, dtype_size(p->dtype), &bytes) ||
        !conv_shape_y(&shape, &bytes) || !size_mul(bytes, dtype_size(p->out), &bytes))
        return false;
    if (p->precision == GEMM_PRECISION_F8 ||
        (p->precision == GEMM_PRECISION_TF32 && p->dtype != GEMMD_F32))
        return false;
    return p->out != GEMMD_I32 ||
           (p->alpha >= INT32_MIN && p->alpha <= INT32_MAX &&
            p->alpha == (double)(int32_t)p->alpha && gemm_act_is_exact(p->act));
}
