#include <math.h>
#include <stdlib.h>

#include "client/gemmctl/check_parts.h"
#include "client/gemmctl/progress.h"
#include "proto/dtype.h"

/* Elements from one to the next in each dimension of an image, or of a filter. */
struct steps {
    uint64_t channel, row, column;
};

struct conv_reference {
    const struct conv_shape *shape;
    double *x;    /* one image, in the request's layout */
    double *w;    /* all filters, in the request's layout */
    double *bias; /* [filters] */
    double *y;    /* [out_width], a row of the result */
    struct steps x_steps, w_steps;
    uint64_t filter; /* elements of a filter */
};

static bool conv_reference_open(struct conv_reference *reference, const struct conv_shape *s)
{
    const uint64_t channels = s->channels / s->groups, plane = s->height * s->width;
    *reference = (struct conv_reference){
        .shape = s,
        .x = reallocarray(NULL, s->channels * plane, sizeof(double)),
        .w = reallocarray(NULL, s->filters * channels, s->r * s->s * sizeof(double)),
        .bias = calloc(s->filters, sizeof(double)),
        .y = reallocarray(NULL, s->out_width, sizeof(double)),
        .x_steps = s->layout == CONV_NCHW ? (struct steps){plane, s->width, 1}
                                          : (struct steps){1, s->width * s->channels, s->channels},
        .w_steps = s->w_layout == CONV_KCRS ? (struct steps){s->r * s->s, s->s, 1}
                                            : (struct steps){1, s->s * channels, channels},
        .filter = channels * s->r * s->s,
    };
    return reference->x != NULL && reference->w != NULL && reference->bias != NULL &&
           reference->y != NULL;
}

static void conv_reference_close(struct conv_reference *reference)
{
    free(reference->x);
    free(reference->w);
    free(reference->bias);
    free(reference->y);
}

/* The pixel of the image that is `tap` elements of the filter from output `out`; -1: the pixel is
 * in the padding. */
static int64_t pixel(uint64_t out, uint64_t stride, uint64_t tap, uint64_t dilation, uint64_t pad,
                     uint64_t size)
{
    const int64_t at = (int64_t)(out * stride + tap * dilation) - (int64_t)pad;
    return at >= 0 && at < (int64_t)size ? at : -1;
}

/* Computes sum and magnitude of an element of Y. The zeros of the padding take part. */
static void sum_element(const struct conv_reference *reference, uint64_t filter, uint64_t row,
                        uint64_t column, struct check_terms *terms)
{
    const struct conv_shape *s = reference->shape;
    const struct steps *xs = &reference->x_steps, *ws = &reference->w_steps;
    const uint64_t channels = s->channels / s->groups;
    const uint64_t first = filter / (s->filters / s->groups) * channels;
    const double *w = reference->w + filter * reference->filter;
    for (uint64_t u = 0; u < s->r; u++) {
        const int64_t i = pixel(row, s->stride_h, u, s->dilation_h, s->pad_top, s->height);
        for (uint64_t v = 0; v < s->s; v++) {
            const int64_t j = pixel(column, s->stride_w, v, s->dilation_w, s->pad_left, s->width);
            for (uint64_t c = 0; c < channels; c++) {
                const double x =
                    i < 0 || j < 0 ? 0
                                   : reference->x[(first + c) * xs->channel +
                                                  (uint64_t)i * xs->row + (uint64_t)j * xs->column];
                const double term = x * w[c * ws->channel + u * ws->row + v * ws->column];
                terms->sum += term;
                terms->magnitude += fabs(term);
            }
        }
    }
}

/* Compares a row of Y: one channel, one row of pixels of an image. */
static void compare_row(const struct conv_reference *reference,
                        const struct check_epilogue *epilogue, uint64_t row_number, const void *y,
                        struct check *check)
{
    const struct conv_shape *s = reference->shape;
    const bool first = s->layout == CONV_NCHW;
    const uint64_t row = row_number % s->out_height, rest = row_number / s->out_height;
    const uint64_t filter = rest % s->filters, image = rest / s->filters;
    const uint64_t step = first ? 1 : s->filters;
    const uint64_t from = first
                              ? row_number * s->out_width
                              : (image * s->out_height + row) * s->out_width * s->filters + filter;
    widen(epilogue->out, (const char *)y + from * dtype_size(epilogue->out), step, s->out_width,
          reference->y);
    for (uint64_t column = 0; column < s->out_width; column++) {
        struct check_terms terms = {.factor = 1, .bias = reference->bias[filter]};
        sum_element(reference, filter, row, column, &terms);
        check_epilogue_compare(epilogue, check, from + column * step, reference->y[column], &terms);
    }
}

enum gemmd_error check_conv(const struct conv2d_request *request,
                            const struct conv2d_operands *operands, const void *y,
                            struct progress_line *line, struct check *check)
{
    const struct conv2d_request *r = request;
    struct conv_shape shape;
    struct conv_reference reference;
    enum gemmd_error code = conv2d_request_shape(r, &shape, &(struct fault){0});
    if (code != GEMMD_OK)
        return code;
    if (!conv_reference_open(&reference, &shape)) {
        conv_reference_close(&reference);
        return GEMMD_ERR_OUT_OF_MEMORY;
    }
    struct check_epilogue epilogue = {.dtype = r->dtype,
                                      .out = r->out,
                                      .precision = r->precision,
                                      .act = r->act,
                                      .alpha = r->alpha,
                                      .k = reference.filter};
    check_epilogue_settle(&epilogue);
    const uint64_t image = shape.channels * shape.height * shape.width;
    const uint64_t rows = shape.filters * shape.out_height;
    const uint64_t stride = check_stride((double)(shape.batch * rows) * (double)shape.out_width *
                                         (double)reference.filter);
    *check = (struct check){.rows = shape.batch * rows};
    widen(r->dtype, operands->w.data, 1, shape.filters * reference.filter, reference.w);
    if (operands->bias.data != NULL)
        widen(r->out, operands->bias.data, 1, shape.filters, reference.bias);
    uint64_t loaded = UINT64_MAX;
    for (uint64_t at = 0; at < check->rows && code == GEMMD_OK; at += stride) {
        if (at / rows != loaded) {
            loaded = at / rows;
            widen(r->dtype, (const char *)operands->x.data + loaded * image * dtype_size(r->dtype),
                  1, image, reference.x);
        }
        compare_row(&reference, &epilogue, at, y, check);
        check->rows_checked++;
        progress_part(line, "checking", at + 1, check->rows, NULL);
        if (interrupt_asked())
            code = GEMMD_ERR_CANCELLED;
    }
    conv_reference_close(&reference);
    return code;
}
