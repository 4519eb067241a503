/* operation_conv2d: convolutions as one of the operations (operations.h). */
#include "kernels/backend.h"
#include "kernels/known_conv2d.h"
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum { PART_X, PART_W, PART_BIAS, PART_Y };

/* Every subproblem of a divided problem needs W and the bias. */
static bool conv2d_parts(const void *problem, struct operation_part parts[OPERATION_PARTS_MAX])
{
    const struct conv_problem *p = problem;
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    uint64_t x, w, y;
    parts[PART_W].is_whole = parts[PART_BIAS].is_whole = true;
    return conv_shape_x(&p->shape, &x) && size_mul(x, size, &parts[PART_X].bytes) &&
           size_mul(p->shape.filters, conv_strides_w(p).image, &w) &&
           size_mul(w, size, &parts[PART_W].bytes) && conv_shape_y(&p->shape, &y) &&
           size_mul(y, out_size, &parts[PART_Y].bytes) &&
           (p->bias == NULL || size_mul(p->shape.filters, out_size, &parts[PART_BIAS].bytes));
}

static enum gemmd_dtype conv2d_dtype(const void *problem)
{
    return ((const struct conv_problem *)problem)->dtype;
}

/* The sizes m, n and k of the product that computes one image. */
static void conv2d_lengths(const void *problem, uint64_t lengths[OPERATION_LENGTHS])
{
    const struct conv_shape *s = &((const struct conv_problem *)problem)->shape;
    lengths[0] = s->out_height * s->out_width;
    lengths[1] = s->filters;
    lengths[2] = s->channels / s->groups * s->r * s->s;
}

static double conv2d_share_flops(const void *problem)
{
    const struct conv_shape *s = &((const struct conv_problem *)problem)->shape;
    const uint64_t pixels = s->out_height * s->out_width, filters = s->filters / s->groups;
    const uint64_t taps = s->channels / s->groups * s->r * s->s;
    return 2 * operation_length(pixels) * operation_length(filters) * operation_length(taps) *
           (double)s->batch * (double)s->groups;
}

static double conv2d_moved_bytes(const void *problem)
{
    struct operation_part parts[OPERATION_PARTS_MAX];
    const uint32_t count = conv2d_parts(problem, parts);
    double bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += (double)parts[i].bytes;
    return bytes;
}

/* Kernels that compute groups take problems of any shapes. */
static struct operation_traits conv2d_group_traits(const void *problem)
{
    const struct conv_problem *p = problem;
    return (struct operation_traits){{(uint64_t)p->dtype << 8 | (uint64_t)p->out, 0}};
}

/* A unit is two million operations or 64 KiB of operands and results. */
static uint32_t conv2d_group_units(const void *problem)
{
    const double units = 1 + conv_flops(problem) / 2e6 + conv2d_moved_bytes(problem) / 65536;
    return units < UINT32_MAX ? (uint32_t)units : UINT32_MAX;
}

static uint64_t conv2d_units(const struct operation_kernel *kernel, const void *problem)
{
    (void)kernel;
    return ((const struct conv_problem *)problem)->shape.batch;
}

static void conv2d_divide(const void *problem, struct operation_range units, void *some)
{
    *(struct conv_problem *)some = conv_subproblem(problem, units.first, units.count);
}

/* A filter of 3 x 3 on images of 8 x 8, with padding that keeps the size. */
static struct conv_problem small_problem(enum gemmd_dtype dtype, uint64_t batch, uint64_t channels,
                                         uint64_t filters, uint64_t taps, uint64_t groups)
{
    struct conv_problem problem = {
        .dtype = dtype,
        .out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype,
        .alpha = 1,
        .shape = {.layout = CONV_NHWC,
                  .w_layout = CONV_KRSC,
                  .batch = batch,
                  .channels = channels,
                  .height = 8,
                  .width = 8,
                  .filters = filters,
                  .r = taps,
                  .s = taps,
                  .groups = groups,
                  .stride_h = 1,
                  .stride_w = 1,
                  .dilation_h = 1,
                  .dilation_w = 1},
    };
    struct fault fault;
    conv_shape_pad_same(&problem.shape);
    (void)conv_shape_settle(&problem.shape, &fault);
    return problem;
}

static bool conv2d_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    struct conv_problem *p = problem;
    *p = small_problem(dtype, 1, 64, 64, 3, 1);
    p->out = out;
    return conv_problem_offered(p);
}

/* With one filter for each channel. */
static bool conv2d_special_example(enum gemmd_dtype dtype, enum gemmd_dtype out, void *problem)
{
    struct conv_problem *p = problem;
    *p = small_problem(dtype, 1, 64, 64, 3, 64);
    p->out = out;
    return conv_problem_offered(p);
}

static bool conv2d_warm(uint32_t index, void *problem)
{
    /* Few and many pixels, one product, one filter for each channel in three widths, and groups. */
    static const struct {
        uint64_t batch, channels, filters, taps, groups;
        enum conv_layout layout;
    } shapes[] = {{1, 64, 64, 3, 1, CONV_NHWC},   {64, 256, 256, 3, 1, CONV_NHWC},
                  {64, 64, 128, 3, 1, CONV_NCHW}, {4, 64, 64, 1, 1, CONV_NHWC},
                  {4, 64, 64, 3, 64, CONV_NHWC},  {4, 64, 64, 5, 64, CONV_NCHW},
                  {4, 64, 64, 7, 64, CONV_NHWC},  {4, 64, 64, 3, 8, CONV_NHWC},
                  {4, 3, 64, 7, 1, CONV_NCHW}};
    enum { SHAPES = sizeof shapes / sizeof *shapes, VARIANTS = 2 * SHAPES };
    const uint32_t dtype = index / VARIANTS, i = index % SHAPES;
    if (dtype >= GEMMD_DTYPE_COUNT)
        return false;
    struct conv_problem *p = problem;
    *p = small_problem((enum gemmd_dtype)dtype, shapes[i].batch, shapes[i].channels,
                       shapes[i].filters, shapes[i].taps, shapes[i].groups);
    p->shape.layout = shapes[i].layout;
    if (index % VARIANTS >= SHAPES) { /* the other results of i8, and the other precision of f32 */
        p->out = dtype == GEMMD_I8 ? GEMMD_F32 : p->out;
        p->precision = dtype == GEMMD_F32 ? GEMM_PRECISION_TF32 : GEMM_PRECISION_FULL;
    }
    return true;
}

static void conv2d_known_init(uint32_t index, void *memory, void *problem)
{
    known_conv2d_init(problem, (enum gemmd_dtype)(index / KNOWN_CONV2D_COUNT),
                      (enum known_conv2d)(index % KNOWN_CONV2D_COUNT), memory);
}

const struct operation operation_conv2d = {
    .name = "conv2d",
    .number = OPERATION_CONV2D,
    .operands = PART_Y,
    .results = 1,
    .fields = {[PART_X] = offsetof(struct conv_problem, x),
               [PART_W] = offsetof(struct conv_problem, w),
               [PART_BIAS] = offsetof(struct conv_problem, bias),
               [PART_Y] = offsetof(struct conv_problem, y)},
    .parts = conv2d_parts,
    .dtype = conv2d_dtype,
    .length_names = {"pixels", "filters", "taps"},
    .lengths = conv2d_lengths,
    .flops = conv_flops,
    .share_flops = conv2d_share_flops,
    .moved_bytes = conv2d_moved_bytes,
    .group_traits = conv2d_group_traits,
    .group_units = conv2d_group_units,
    .units = conv2d_units,
    .divide = conv2d_divide,
    .example = conv2d_example,
    .special_example = conv2d_special_example,
    .warm = conv2d_warm,
    .known = {.bytes = KNOWN_CONV2D_BYTES,
              .cases = KNOWN_CONV2D_COUNT * GEMMD_DTYPE_COUNT,
              .init = conv2d_known_init,
              .check = known_conv2d_check},
};
