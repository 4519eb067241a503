#include "kernels/cuda/sm90/conv/estimate.h"

#include <math.h>

#include "proto/dtype.h"
#include "proto/size.h"

struct gemm_problem sm90_conv_product(const struct sm90_conv *c)
{
    const uint64_t line = SM90_CONV_LINE_BYTES / dtype_size(c->dtype);
    const uint64_t k = size_blocks(c->channels, line) * line * c->taps_h * c->taps_w;
    return (struct gemm_problem){
        .dtype = c->dtype,
        .out = c->out,
        .precision = c->dtype == GEMMD_F32 ? GEMM_PRECISION_TF32 : GEMM_PRECISION_FULL,
        .act = c->act,
        .transb = true,
        .m = c->images * c->out_height * c->out_width,
        .n = c->filters,
        .k = k,
        .batch = 1,
        .alpha = c->alpha,
        .bias = c->bias,
        .lda = c->x_pixel,
        .ldb = k,
        .ldc = c->ldy,
    };
}

const struct sm90_rates *sm90_conv_rates(enum gemmd_dtype dtype)
{
    if (dtype == GEMMD_I8)
        return &sm90_rates_conv_i8;
    return dtype == GEMMD_F32 ? &sm90_rates_conv_tf32 : &sm90_rates_conv_16_bit;
}

/* The elements of X that the filters read: without the pixels that strides skip, and with each
 * pixel that several taps read counted once. */
static double elements_of_x(const struct sm90_conv *c)
{
    const double rows = fmin((double)c->height, (double)(c->out_height * c->taps_h));
    const double columns = fmin((double)c->width, (double)(c->out_width * c->taps_w));
    const double channels = fmin((double)c->channels, (double)c->x_pixel);
    return (double)c->images * rows * columns * channels;
}

double sm90_conv_estimate_us(const struct sm90_kernel *kernel, const struct sm90_conv *c,
                             const struct sm90_rates *rates, const struct sm90_card *card)
{
    const struct gemm_problem product = sm90_conv_product(c);
    return sm90_model_us(kernel, &product, rates, card,
                         elements_of_x(c) + (double)product.n * (double)product.k);
}
