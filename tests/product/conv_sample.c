#include "tests/product/conv_sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"

enum { GUARD = 512 };

static int conv_poison_of(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_I8 || dtype == GEMMD_I32 ? 0x7f : 0xff;
}

static enum gemmd_dtype dtype_of(const struct conv_problem *p, unsigned part)
{
    return part == CONV_X || part == CONV_W ? p->dtype : p->out;
}

static bool elements_of(const struct conv_problem *p, unsigned part, uint64_t *elements)
{
    switch (part) {
    case CONV_X:
        return conv_shape_x(&p->shape, elements);
    case CONV_W:
        return conv_shape_w(&p->shape, elements);
    case CONV_BIAS:
        *elements = p->shape.filters;
        return true;
    default:
        return conv_shape_y(&p->shape, elements);
    }
}

static bool allocate_buffer(struct product_buffer *buffer, enum gemmd_dtype dtype,
                            uint64_t elements)
{
    buffer->bytes = 2 * GUARD + elements * dtype_size(dtype);
    buffer->offset = GUARD;
    buffer->data = aligned_alloc(256, (buffer->bytes + 255) / 256 * 256);
    if (buffer->data != NULL)
        memset(buffer->data, conv_poison_of(dtype), buffer->bytes);
    return buffer->data != NULL;
}

/* The place of an element of a tensor of images or filters. */
static uint64_t element_at(bool channels_last, uint64_t channels, uint64_t height, uint64_t width,
                           const uint64_t at[4])
{
    if (channels_last)
        return ((at[0] * height + at[2]) * width + at[3]) * channels + at[1];
    return ((at[0] * channels + at[1]) * height + at[2]) * width + at[3];
}

/* Copies the group's operands to its product, as the matrices that they are there. */
static void gather_patches(const struct conv_sample *sample, uint64_t group)
{
    const struct conv_problem *p = &sample->problem;
    const struct conv_shape *s = &p->shape;
    const struct gemm_problem *product = &sample->groups[group].problem;
    const uint64_t size = dtype_size(p->dtype), channels = s->channels / s->groups;
    char *a = (char *)(uintptr_t)product->a;
    for (uint64_t image = 0; image < s->batch; image++)
        for (uint64_t pixel = 0; pixel < product->m; pixel++)
            for (uint64_t i = 0; i < product->k; i++, a += size) {
                const uint64_t c = i / (s->r * s->s), u = i / s->s % s->r, v = i % s->s;
                const uint64_t row = pixel / s->out_width * s->stride_h + u * s->dilation_h;
                const uint64_t column = pixel % s->out_width * s->stride_w + v * s->dilation_w;
                const uint64_t at[4] = {image, group * channels + c, row - s->pad_top,
                                        column - s->pad_left};
                if (row < s->pad_top || column < s->pad_left || at[2] >= s->height ||
                    at[3] >= s->width)
                    memset(a, 0, size);
                else
                    memcpy(a,
                           (const char *)p->x + element_at(s->layout == CONV_NHWC, s->channels,
                                                           s->height, s->width, at) *
                                                    size,
                           size);
            }
    char *b = (char *)(uintptr_t)product->b;
    for (uint64_t image = 0; image < s->batch; image++)
        for (uint64_t filter = 0; filter < product->n; filter++)
            for (uint64_t i = 0; i < product->k; i++, b += size) {
                const uint64_t at[4] = {group * product->n + filter, i / (s->r * s->s),
                                        i / s->s % s->r, i % s->s};
                memcpy(b,
                       (const char *)p->w +
                           element_at(s->w_layout == CONV_KRSC, channels, s->r, s->s, at) * size,
                       size);
            }
    if (p->bias != NULL)
        memcpy((char *)(uintptr_t)product->bias,
               (const char *)p->bias + group * product->n * dtype_size(p->out),
               product->n * dtype_size(p->out));
}

/* Random elements as products have them: those of A of a product of one element. */
static bool draw(void *to, enum gemmd_dtype dtype, enum gemmd_dtype out, uint64_t elements,
                 enum product_fill fill, uint64_t seed)
{
    const struct gemm_problem like = {
        .dtype = dtype, .out = out, .m = 1, .n = 1, .k = elements, .batch = 1, .alpha = 1};
    struct product product;
    if (!product_create(&product, &like, 0, fill, seed))
        return false;
    memcpy(to, product.problem.a, elements * dtype_size(dtype));
    product_destroy(&product);
    return true;
}

/* Likewise those of the bias. */
static bool draw_bias(void *to, const struct conv_problem *p, enum product_fill fill, uint64_t seed)
{
    static const char present;
    const struct gemm_problem like = {.dtype = p->dtype,
                                      .out = p->out,
                                      .m = 1,
                                      .n = p->shape.filters,
                                      .k = 1,
                                      .batch = 1,
                                      .alpha = 1,
                                      .bias = &present};
    struct product product;
    if (!product_create(&product, &like, 0, fill, seed))
        return false;
    memcpy(to, product.problem.bias, p->shape.filters * dtype_size(p->out));
    product_destroy(&product);
    return true;
}

static bool create_group(struct conv_sample *sample, uint64_t group)
{
    const struct conv_problem *p = &sample->problem;
    const struct conv_shape *s = &p->shape;
    const struct gemm_problem like = {
        .dtype = p->dtype,
        .out = p->out,
        .precision = p->precision,
        .act = p->act,
        .transb = true,
        .m = s->out_height * s->out_width,
        .n = s->filters / s->groups,
        .k = s->channels / s->groups * s->r * s->s,
        .batch = s->batch,
        .alpha = p->alpha,
        .bias = p->bias,
    };
    struct product *product = &sample->groups[group];
    if (!product_create(product, &like, 0, PRODUCT_UNIFORM, 0))
        return false;
    gather_patches(sample, group);
    return product_expect(product);
}

bool conv_sample_create(struct conv_sample *sample, const struct conv_problem *like,
                        enum product_fill fill, uint64_t seed)
{
    *sample = (struct conv_sample){.problem = *like};
    struct conv_problem *p = &sample->problem;
    struct fault fault;
    p->x = p->w = p->bias = NULL;
    bool done = conv_shape_settle(&p->shape, &fault) == GEMMD_OK;
    for (unsigned part = 0; part < CONV_PARTS && done; part++) {
        struct product_buffer *buffer = &sample->buffers[part];
        uint64_t elements;
        if (part == CONV_BIAS && like->bias == NULL)
            continue;
        done =
            elements_of(p, part, &elements) && allocate_buffer(buffer, dtype_of(p, part), elements);
        if (!done)
            break;
        void *start = buffer->data + buffer->offset;
        if (part == CONV_Y)
            p->y = start;
        else if (part == CONV_BIAS)
            done = draw_bias(start, p, fill, seed + part);
        else
            done = draw(start, p->dtype, p->out, elements, fill, seed + part);
        const void **operands[] = {&p->x, &p->w, &p->bias};
        if (part != CONV_Y)
            *operands[part] = start;
    }
    sample->groups = done ? calloc(p->shape.groups, sizeof *sample->groups) : NULL;
    done = sample->groups != NULL;
    for (uint64_t group = 0; done && group < p->shape.groups; group++)
        done = create_group(sample, group);
    if (!done)
        conv_sample_destroy(sample);
    return done;
}

void conv_sample_destroy(struct conv_sample *sample)
{
    for (uint64_t group = 0; sample->groups != NULL && group < sample->problem.shape.groups;
         group++)
        product_destroy(&sample->groups[group]);
    free(sample->groups);
    for (unsigned part = 0; part < CONV_PARTS; part++)
        free(sample->buffers[part].data);
    *sample = (struct conv_sample){.problem = sample->problem};
}

void conv_sample_poison(struct conv_sample *sample)
{
    struct product_buffer *y = &sample->buffers[CONV_Y];
    memset(y->data, conv_poison_of(sample->problem.out), y->bytes);
}

/* Copies the group's part of Y to C of its product. */
static void fetch_results(const struct conv_sample *sample, uint64_t group)
{
    const struct conv_problem *p = &sample->problem;
    const struct conv_shape *s = &p->shape;
    struct product *product = &sample->groups[group];
    const uint64_t size = dtype_size(p->out), filters = product->problem.n;
    product_poison(product);
    char *c = product->problem.c;
    for (uint64_t image = 0; image < s->batch; image++)
        for (uint64_t pixel = 0; pixel < product->problem.m; pixel++)
            for (uint64_t filter = 0; filter < filters; filter++, c += size) {
                const uint64_t at[4] = {image, group * filters + filter, pixel / s->out_width,
                                        pixel % s->out_width};
                memcpy(c,
                       (const char *)p->y + element_at(s->layout == CONV_NHWC, s->filters,
                                                       s->out_height, s->out_width, at) *
                                                size,
                       size);
            }
}

bool conv_sample_check(const struct conv_sample *sample, double sum_error, double *worst,
                       char *text, uint64_t size)
{
    const struct product_buffer *y = &sample->buffers[CONV_Y];
    const unsigned char poison = (unsigned char)conv_poison_of(sample->problem.out);
    for (uint64_t i = 0; i < y->bytes; i++)
        if ((i < y->offset || i >= y->bytes - GUARD) && y->data[i] != poison) {
            snprintf(text, size, "byte %" PRId64 " from the start of Y was written",
                     (int64_t)i - (int64_t)y->offset);
            return false;
        }
    for (uint64_t group = 0; group < sample->problem.shape.groups; group++) {
        char why[256];
        fetch_results(sample, group);
        if (!product_check(&sample->groups[group], sum_error, worst, why, sizeof why)) {
            snprintf(text, size, "group %" PRIu64 ", as [image][pixel][filter]: %s", group, why);
            return false;
        }
    }
    return true;
}

void conv_describe(const struct conv_problem *p, char *text, uint64_t size)
{
    const struct conv_shape *s = &p->shape;
    snprintf(text, size,
             "%s to %s%s, %s, %s, %" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64
             ", filters %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", groups %" PRIu64
             ", stride %" PRIu64 " %" PRIu64 ", dilation %" PRIu64 " %" PRIu64 ", padding %" PRIu64
             " %" PRIu64 " %" PRIu64 " %" PRIu64 ", alpha %g%s, act %s",
             dtype_name(p->dtype), dtype_name(p->out),
             p->precision == GEMM_PRECISION_TF32 ? " (tf32)" : "",
             s->layout == CONV_NHWC ? "nhwc" : "nchw", s->w_layout == CONV_KRSC ? "krsc" : "kcrs",
             s->batch, s->channels, s->height, s->width, s->filters, s->r, s->s, s->groups,
             s->stride_h, s->stride_w, s->dilation_h, s->dilation_w, s->pad_top, s->pad_bottom,
             s->pad_left, s->pad_right, p->alpha, p->bias != NULL ? ", bias" : "",
             gemm_act_name(p->act));
}

/* batch, channels, height, width, filters, r, s, groups, stride, dilation, padding of four sides */
static const uint16_t cases[][16] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {2, 3, 9, 11, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {3, 8, 7, 7, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 64, 14, 14, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 72, 13, 10, 40, 3, 3, 1, 2, 2, 1, 1, 1, 1, 1, 1},
    {2, 3, 35, 33, 24, 7, 7, 1, 2, 2, 1, 1, 3, 3, 3, 3},
    {2, 3, 16, 16, 24, 4, 4, 1, 4, 4, 1, 1, 0, 0, 0, 0},
    {2, 48, 14, 14, 40, 2, 2, 1, 2, 2, 1, 1, 0, 0, 0, 0},
    {1, 16, 20, 18, 8, 3, 3, 1, 1, 1, 2, 2, 2, 2, 2, 2},
    {2, 16, 12, 15, 24, 3, 2, 1, 2, 3, 2, 1, 0, 3, 2, 1},
    {2, 24, 9, 8, 16, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {2, 24, 9, 8, 17, 1, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0},
    {2, 17, 6, 7, 19, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {2, 24, 8, 9, 24, 3, 3, 24, 1, 1, 1, 1, 1, 1, 1, 1},
    {2, 40, 15, 17, 40, 7, 7, 40, 1, 1, 1, 1, 3, 3, 3, 3},
    {1, 13, 9, 10, 13, 5, 3, 13, 2, 1, 1, 2, 2, 2, 2, 2},
    {2, 8, 9, 10, 24, 3, 3, 8, 2, 2, 1, 1, 1, 1, 1, 1},
    {2, 32, 8, 9, 48, 3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 6, 11, 8, 9, 3, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1},
    {1, 5, 1, 40, 7, 1, 9, 1, 1, 1, 1, 3, 0, 0, 12, 12},
    {1, 4, 33, 1, 6, 5, 1, 1, 3, 1, 2, 1, 4, 4, 0, 0},
    {2, 8, 4, 4, 8, 4, 4, 1, 1, 1, 1, 1, 0, 0, 0, 0},
    {1, 8, 2, 2, 8, 3, 3, 1, 1, 1, 1, 1, 5, 4, 6, 3},
    {1, 8, 40, 37, 12, 3, 3, 1, 9, 10, 1, 1, 1, 1, 1, 1},
    {5, 8, 5, 3, 136, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 130, 6, 5, 72, 3, 3, 1, 1, 1, 1, 1, 1, 0, 1, 0},
    {1, 2, 70, 67, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    /* depthwise: strides, both halves of a padding, wider paddings than filters, bands of rows */
    {3, 36, 9, 10, 36, 3, 3, 36, 2, 2, 1, 1, 1, 1, 1, 1},
    {2, 68, 13, 5, 68, 5, 5, 68, 1, 1, 1, 1, 2, 2, 2, 2},
    {2, 12, 14, 11, 12, 5, 5, 12, 2, 2, 1, 1, 2, 1, 2, 1},
    {1, 8, 2, 3, 8, 3, 3, 8, 2, 2, 1, 1, 5, 4, 6, 3},
    {5, 100, 7, 7, 100, 7, 7, 100, 1, 1, 1, 1, 4, 3, 0, 6},
    {1, 34, 150, 6, 34, 3, 3, 34, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 4, 1, 2, 4, 7, 7, 4, 2, 2, 1, 1, 3, 3, 3, 3},
    {1, 160, 21, 30, 160, 3, 3, 160, 3, 3, 1, 2, 1, 1, 1, 1},
    {1, 3, 4, 1100, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
    /* few channels and strides: merged rows of taps that the filter or X does not fill */
    {2, 3, 20, 31, 16, 7, 7, 1, 2, 2, 1, 1, 2, 5, 3, 1},
    {2, 3, 17, 19, 16, 4, 4, 1, 4, 4, 1, 1, 1, 2, 0, 3},
    {2, 3, 23, 18, 24, 5, 4, 1, 3, 2, 1, 1, 0, 0, 0, 0},
    {3, 1, 12, 13, 8, 2, 3, 1, 5, 1, 1, 1, 4, 0, 1, 1},
    {1, 4, 9, 30, 72, 3, 3, 1, 2, 4, 1, 1, 1, 1, 1, 1},
    {1, 3, 64, 64, 8, 16, 16, 1, 8, 8, 1, 1, 4, 4, 4, 4},
};
enum { SHAPES = sizeof cases / sizeof *cases, VARIANTS = 4 };

unsigned conv_case_count(void)
{
    return SHAPES * VARIANTS;
}

struct conv_problem conv_case(unsigned number, enum gemmd_dtype dtype, enum gemmd_dtype out,
                              enum gemm_precision precision)
{
    static const char present;
    const uint16_t *c = cases[number / VARIANTS];
    const unsigned variant = number % VARIANTS, turn = number / VARIANTS + variant;
    struct conv_problem problem = {
        .dtype = dtype,
        .out = out,
        .precision = precision,
        .act = out == GEMMD_I32 ? turn % 2 ? GEMM_ACT_RELU : GEMM_ACT_NONE
                                : (enum gemm_act)(turn % (GEMM_ACT_COUNT + 1) % GEMM_ACT_COUNT),
        .alpha = turn % 5 == 3 ? out == GEMMD_I32 ? -3 : 0.5 : 1,
        .bias = turn % 3 != 0 ? &present : NULL,
        .shape = {.layout = variant % 2 ? CONV_NCHW : CONV_NHWC,
                  .w_layout = variant / 2 ? CONV_KCRS : CONV_KRSC,
                  .batch = c[0],
                  .channels = c[1],
                  .height = c[2],
                  .width = c[3],
                  .filters = c[4],
                  .r = c[5],
                  .s = c[6],
                  .groups = c[7],
                  .stride_h = c[8],
                  .stride_w = c[9],
                  .dilation_h = c[10],
                  .dilation_w = c[11],
                  .pad_top = c[12],
                  .pad_bottom = c[13],
                  .pad_left = c[14],
                  .pad_right = c[15]},
    };
    struct fault fault;
    (void)conv_shape_settle(&problem.shape, &fault);
    return problem;
}
