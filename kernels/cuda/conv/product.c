/*
 * product - a convolution as matrix products, which the kernels of products compute.
 *
 * A pointwise (1 x 1) convolution is a product of its pixels with W transposed. For other
 * convolutions the elements of X that each pixel of Y needs, the patch of the pixel, are gathered
 * in a row of a matrix in the workspace. That matrix has about PATCH_BYTES, for as many pixels as
 * fit; block after block of pixels is gathered and multiplied with W transposed (im2col).
 *
 * Y is written to the workspace first if its layout is NCHW or there are groups. The kernel of the
 * products is one that gives a row the same bits in any number of rows.
 */
#include "kernels/cuda/context.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/move/move.h"
#include "proto/dtype.h"
#include "proto/size.h"

enum {
    PATCH_BYTES = 64 << 20,
    ROWS = 256, /* the pixels of a block are a multiple of this */
    ALIGNMENT = 256,
    PIECE_BYTES = 16
};

struct product_plan {
    bool x_in_place, y_in_place;
    uint64_t k, lda, ldc;
    uint64_t pixels;  /* of all images of Y */
    uint64_t filters; /* of a group */
    uint64_t rows;    /* pixels of a block but the last */
    uint64_t patch_bytes, w_bytes, bias_bytes, y_bytes, gemm_bytes; /* of the workspace */
};

/* A block of `rows` pixels, without pointers. */
static struct gemm_problem block_problem(const struct conv_problem *p,
                                         const struct product_plan *plan, uint64_t rows)
{
    struct gemm_problem product = {
        .dtype = p->dtype,
        .out = p->out,
        .precision = p->precision,
        .act = p->act,
        .transb = true,
        .m = rows,
        .n = plan->filters,
        .k = plan->k,
        .batch = 1,
        .alpha = p->alpha,
        .bias = p->bias,
    };
    gemm_problem_contiguous(&product);
    product.lda = plan->lda;
    product.ldc = plan->ldc;
    return product;
}

/* The kernel for all blocks of the problem. Each of the candidates gives a row the same bits in any
 * number of rows. */
static const struct operation_kernel *choose_product(const struct gemm_problem *product, bool sm90)
{
    static const struct operation_kernel *const candidates[] = {
        &gemm_cuda_wgmma, &gemm_cuda_tensor_core, &gemm_cuda_register_tiled, &gemm_cuda_naive,
        NULL};
    for (const struct operation_kernel *const *k = candidates; *k != NULL; k++)
        if (((*k)->compute_capability == 0 || sm90) && (*k)->takes(product) &&
            ((*k)->preferred_kernel == NULL || (*k)->preferred_kernel(product) == NULL))
            return *k;
    return NULL;
}

/* Sets gemm_bytes to the largest workspace that the product of a block needs on any device: of the
 * first blocks and of the last one, with and without the kernels of sm_90a. */
static bool gemm_bytes(const struct conv_problem *p, struct product_plan *plan)
{
    const uint64_t last = plan->pixels % plan->rows;
    for (unsigned i = 0; i < 4; i++) {
        const struct gemm_problem product =
            block_problem(p, plan, i / 2 == 0 || last == 0 ? plan->rows : last);
        const struct operation_kernel *kernel = choose_product(&product, i % 2 == 0);
        uint64_t bytes;
        if (kernel == NULL || !kernel->workspace_bytes(&product, &bytes))
            return false;
        plan->gemm_bytes = bytes > plan->gemm_bytes ? bytes : plan->gemm_bytes;
    }
    return true;
}

static bool bytes_of(uint64_t count, uint64_t elements, uint64_t size, uint64_t *bytes)
{
    return size_mul(count, elements, bytes) && size_mul(*bytes, size, bytes) &&
           size_align(*bytes, ALIGNMENT, bytes);
}

static bool product_plan_make(const struct conv_problem *p, struct product_plan *plan)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t size = dtype_size(p->dtype), piece = PIECE_BYTES / size;
    *plan = (struct product_plan){
        .x_in_place = conv_shape_is_pointwise(s) && s->layout == CONV_NHWC,
        .y_in_place = s->layout == CONV_NHWC && s->groups == 1,
        .k = s->channels / s->groups * s->r * s->s,
        .filters = s->filters / s->groups,
    };
    if (!size_mul(s->batch, s->out_height * s->out_width, &plan->pixels) ||
        plan->pixels > GEMM_DIM_MAX)
        return false;
    plan->lda = plan->x_in_place ? plan->k : size_blocks(plan->k, piece) * piece;
    plan->ldc = plan->filters;
    const uint64_t rows = PATCH_BYTES / (plan->lda * size) / ROWS * ROWS;
    plan->rows = plan->pixels;
    if (!plan->x_in_place && rows < plan->pixels)
        plan->rows = rows < ROWS ? ROWS : rows;
    if (plan->rows > plan->pixels)
        plan->rows = plan->pixels;
    if (!plan->x_in_place && !bytes_of(plan->rows, plan->lda, size, &plan->patch_bytes))
        return false;
    if ((s->groups > 1 || !conv_w_is_contiguous(p)) &&
        !bytes_of(plan->filters, plan->k, size, &plan->w_bytes))
        return false;
    if (s->groups > 1 && !bytes_of(plan->filters, 1, dtype_size(p->out), &plan->bias_bytes))
        return false;
    if (!plan->y_in_place && !bytes_of(plan->pixels, plan->ldc, dtype_size(p->out), &plan->y_bytes))
        return false;
    return gemm_bytes(p, plan);
}

static bool product_takes(const void *p)
{
    struct product_plan plan;
    return conv_problem_offered(p) && product_plan_make(p, &plan);
}

/* Groups are separate products, which are slow if they are small. */
static const struct operation_kernel *product_preferred(const void *problem)
{
    const struct conv_problem *p = problem;
    return conv_groups_are_small(&p->shape) ? &conv_cuda_tiled : NULL;
}

static bool product_workspace_bytes(const void *p, uint64_t *out)
{
    struct product_plan plan;
    uint64_t bytes;
    return product_plan_make(p, &plan) && size_add(plan.patch_bytes, plan.w_bytes, &bytes) &&
           size_add(bytes, plan.bias_bytes, &bytes) && size_add(bytes, plan.y_bytes, &bytes) &&
           size_add(bytes, plan.gemm_bytes, out);
}

static enum gemmd_error copy_on_device(cudaStream_t stream, void *to, const void *from,
                                       uint64_t bytes)
{
    return cuda_error_code((int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

/* Moves the results of a group from the workspace to Y. */
static enum gemmd_error move_results(cudaStream_t stream, const struct conv_problem *p,
                                     const struct product_plan *plan, uint64_t group,
                                     const void *from)
{
    const struct conv_shape *s = &p->shape;
    const uint64_t pixels = s->out_height * s->out_width, first = group * plan->filters;
    const uint32_t size = dtype_size(p->out);
    const struct conv_transpose planes = {
        .from = from,
        .to = (char *)p->y + first * pixels * size,
        .images = s->batch,
        .pixels = pixels,
        .groups = 1,
        .channels = plan->filters,
        .group_step = plan->ldc,
        .pixel_step = plan->ldc,
        .image_step = s->filters * pixels,
        .element_bytes = size,
    };
    const struct realign_job lines = {.from = from,
                                      .to = (char *)p->y + first * size,
                                      .rows = plan->pixels,
                                      .width = plan->filters,
                                      .batch = 1,
                                      .ld_from = plan->ldc,
                                      .ld_to = s->filters,
                                      .element_bytes = size};
    return s->layout == CONV_NCHW ? conv_to_channels_first(stream, &planes)
                                  : realign_launch(stream, &lines);
}

/* The parts of the workspace. */
struct product_space {
    char *patches, *w, *bias, *y, *gemm;
};

static enum gemmd_error run_group(struct gemm_context *base, const struct conv_problem *p,
                                  const struct product_plan *plan, uint64_t group,
                                  const struct product_space *space)
{
    struct cuda_context *context = cuda_context_of(base);
    const cudaStream_t stream = context->stream;
    const uint64_t size = dtype_size(p->dtype), out_size = dtype_size(p->out);
    const uint64_t bias_bytes = plan->filters * out_size;
    const char *w = p->w, *bias = p->bias;
    enum gemmd_error code = GEMMD_OK;
    if (plan->w_bytes > 0) { /* operands of products start at multiples of 256 bytes */
        const bool channels_last = p->shape.w_layout == CONV_KRSC;
        const uint64_t width = channels_last ? p->shape.channels / p->shape.groups : p->shape.s;
        const uint64_t rows = plan->filters * plan->k / width;
        const uint64_t leading = p->w_leading != 0 ? p->w_leading : width;
        const struct realign_job lines = {.from = w + group * rows * leading * size,
                                          .to = space->w,
                                          .rows = rows,
                                          .width = width,
                                          .batch = 1,
                                          .ld_from = leading,
                                          .ld_to = width,
                                          .element_bytes = (uint32_t)size};
        code = realign_launch(stream, &lines);
        w = space->w;
    }
    if (code == GEMMD_OK && bias != NULL && p->shape.groups > 1) {
        code = copy_on_device(stream, space->bias, bias + group * bias_bytes, bias_bytes);
        bias = space->bias;
    }
    struct conv_gather gather = {
        .direct = {*p, conv_strides_x(p), conv_strides_w(p), conv_strides_y(p)},
        .to = space->patches,
        .group = group,
        .ld = plan->lda,
    };
    for (uint64_t first = 0; first < plan->pixels && code == GEMMD_OK; first += plan->rows) {
        const uint64_t left = plan->pixels - first, rows = left < plan->rows ? left : plan->rows;
        struct gemm_problem product = block_problem(p, plan, rows);
        const struct operation_kernel *kernel =
            choose_product(&product, context->sm90.encode != NULL);
        if (kernel == NULL)
            return GEMMD_ERR_INTERNAL;
        product.a = p->x;
        if (!plan->x_in_place) {
            gather.first = first;
            gather.rows = rows;
            product.a = space->patches;
            code = conv_gather_launch(stream, &gather);
        }
        product.b = w;
        product.bias = bias;
        product.c = (plan->y_in_place ? (char *)p->y : space->y) + first * plan->ldc * out_size;
        if (code == GEMMD_OK)
            code = operation_run(kernel, base, &product, space->gemm);
    }
    return code == GEMMD_OK && !plan->y_in_place ? move_results(stream, p, plan, group, space->y)
                                                 : code;
}

static enum gemmd_error product_run(struct gemm_context *context, const void *problem,
                                    void *workspace)
{
    const struct conv_problem *p = problem;
    struct product_plan plan;
    if (!product_plan_make(p, &plan))
        return GEMMD_ERR_INTERNAL;
    struct product_space space = {.patches = workspace};
    space.w = space.patches + plan.patch_bytes;
    space.bias = space.w + plan.w_bytes;
    space.y = space.bias + plan.bias_bytes;
    space.gemm = space.y + plan.y_bytes;
    enum gemmd_error code = GEMMD_OK;
    for (uint64_t group = 0; group < p->shape.groups && code == GEMMD_OK; group++)
        code = run_group(context, p, &plan, group, &space);
    return code;
}

const struct operation_kernel conv_cuda_product = {
    .name = "product",
    .description = "gathered patches times the filters, by the kernels of products",
    .takes = product_takes,
    .preferred_kernel = product_preferred,
    .workspace_bytes = product_workspace_bytes,
    .run = product_run,
};
