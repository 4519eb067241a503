/* Finds the operands of a convolution in a body: the functions of conv2d_request.h that bind. */
#include <inttypes.h>
#include <stdio.h>

#include "proto/conv2d_request.h"
#include "proto/dtype.h"

enum { X, W, BIAS };

/* Returns whether the body has to hold the operand. */
static bool is_wanted(const void *of, uint32_t operand)
{
    const struct conv2d_request *request = of;
    const bool wanted[CONV2D_OPERANDS] = {request->x[0] == '\0', request->w[0] == '\0',
                                          request->bias};
    return wanted[operand];
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct conv2d_request *r = of;
    const uint64_t channels = r->channels / r->groups;
    const uint64_t x_first[] = {r->batch, r->channels, r->height, r->width};
    const uint64_t x_last[] = {r->batch, r->height, r->width, r->channels};
    const uint64_t w_first[] = {r->filters, channels, r->filter_h, r->filter_w};
    const uint64_t w_last[] = {r->filters, r->filter_h, r->filter_w, channels};
    if (operand == BIAS)
        return tensor_init(tensor, r->out, &r->filters, 1, NULL);
    if (operand == W)
        return tensor_init(tensor, r->dtype, r->w_layout == CONV_KCRS ? w_first : w_last, 4, NULL);
    return tensor_init(tensor, r->dtype, r->layout == CONV_NCHW ? x_first : x_last, 4, NULL);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct conv2d_request *r = of;
    snprintf(out, room,
             "batch=%" PRIu64 " channels=%" PRIu64 " height=%" PRIu64 " width=%" PRIu64
             " filters=%" PRIu64 " r=%" PRIu64 " s=%" PRIu64 " groups=%" PRIu64 " in %s%s",
             r->batch, r->channels, r->height, r->width, r->filters, r->filter_h, r->filter_w,
             r->groups, dtype_name(r->dtype), r->bias ? " with bias" : "");
}

/* A request that differs from a client's in one thing, to see if its body has the length `bytes`.
 */
struct conv2d_variant {
    struct conv2d_request request;
    uint32_t elsewhere;
    uint64_t bytes;
};

static bool conv2d_variant_fits(const struct conv2d_variant *variant)
{
    struct operand_layout layout;
    return operand_layout_compute(&layout, &conv2d_operand_table, &variant->request,
                                  variant->elsewhere) &&
           layout.bytes == variant->bytes;
}

static bool conv2d_fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    struct conv2d_variant variant = *(const struct conv2d_variant *)context;
    variant.request.dtype = dtype;
    variant.request.out = dtype == GEMMD_I8 ? GEMMD_I32 : dtype;
    return (dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16 || dtype == GEMMD_I8) &&
           conv2d_variant_fits(&variant);
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    const struct conv2d_request *r = of;
    struct conv2d_variant variant = {*r, elsewhere, bytes};
    if (bytes == 0)
        return;
    if (r->x[0] == '\0' && r->w[0] == '\0')
        operand_guess_dtypes(out, r->dtype, conv2d_fits_with_dtype, &variant);
    variant.request.bias = !r->bias;
    if (conv2d_variant_fits(&variant))
        operand_guess_add(out, r->bias ? "is the bias missing" : "is bias=1 missing");
}

const struct operand_table conv2d_operand_table = {
    .path = "/conv2d",
    .names = "x, w, bias",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .count = CONV2D_OPERANDS,
    .npy_more = " (bias=1 adds a vector after W)",
    .operands = {{"x", "X", "x", "x"}, {"w", "W", "w", "w"}, {"bias", "the bias", "bias", "bias"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

/* ---- formats whose arrays have types and shapes ---- */

static enum gemmd_error settle_dtype(struct conv2d_request *request, const struct tensor *tensor,
                                     const char *title, struct fault *fault)
{
    if (tensor->dtype != GEMMD_F32 && tensor->dtype != GEMMD_F16 && tensor->dtype != GEMMD_BF16 &&
        tensor->dtype != GEMMD_I8)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "%s is of type %s; convolutions are offered in f32, f16, bf16 and i8",
                         title, dtype_name(tensor->dtype));
    if (conv2d_request_given(request, "dtype") && tensor->dtype != request->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "%s is of type %s and the parameter or another operand says %s; both must "
                         "be the same",
                         title, dtype_name(tensor->dtype), dtype_name(request->dtype));
    request->dtype = tensor->dtype;
    conv2d_request_mark_given(request, "dtype");
    return GEMMD_OK;
}

static enum gemmd_error settle_size(const char *name, uint64_t *size, uint64_t value,
                                    const char *title, struct fault *fault)
{
    return operand_settle_size(name, size, value, title, "the parameter or another operand", fault);
}

static enum gemmd_error check_rank(const struct tensor *tensor, const char *title,
                                   const char *dimensions, struct fault *fault)
{
    return tensor->rank == 4 ? GEMMD_OK
                             : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                                         "%s has %" PRIu32 " dimensions; it must have 4: %s", title,
                                         tensor->rank, dimensions);
}

static enum gemmd_error settle_x(struct conv2d_request *request, const struct tensor *x,
                                 const char *title, struct fault *fault)
{
    const bool first = request->layout == CONV_NCHW;
    enum gemmd_error code = check_rank(
        x, title, first ? "batch, channels, height, width" : "batch, height, width, channels",
        fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, x, title, fault);
    if (code == GEMMD_OK)
        code = settle_size("batch", &request->batch, x->dims[0], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("channels", &request->channels, x->dims[first ? 1 : 3], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("height", &request->height, x->dims[first ? 2 : 1], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("width", &request->width, x->dims[first ? 3 : 2], title, fault);
    return code;
}

static enum gemmd_error settle_w(struct conv2d_request *request, const struct tensor *w,
                                 const char *title, struct fault *fault)
{
    const bool first = request->w_layout == CONV_KCRS;
    enum gemmd_error code = check_rank(
        w, title, first ? "filters, channels / groups, r, s" : "filters, r, s, channels / groups",
        fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, w, title, fault);
    if (code == GEMMD_OK)
        code = settle_size("filters", &request->filters, w->dims[0], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("filter_h", &request->filter_h, w->dims[first ? 2 : 1], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("filter_w", &request->filter_w, w->dims[first ? 3 : 2], title, fault);
    const uint64_t channels = w->dims[first ? 1 : 3];
    if (code != GEMMD_OK)
        return code;
    if (channels > CONV_DIM_MAX / request->groups)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "groups",
                         "%s has filters of %" PRIu64 " channels, which times groups=%" PRIu64
                         " is more than %d",
                         title, channels, request->groups, CONV_DIM_MAX);
    if (request->channels != 0 && request->channels != channels * request->groups)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "groups",
                         "%s has filters of %" PRIu64 " channels, and channels=%" PRIu64
                         " / groups=%" PRIu64 " is something else",
                         title, channels, request->channels, request->groups);
    request->channels = channels * request->groups;
    return GEMMD_OK;
}

enum gemmd_error conv2d_request_settle_residents(struct conv2d_request *request,
                                                 const struct tensor *x, const struct tensor *w,
                                                 struct fault *fault)
{
    enum gemmd_error code = x != NULL ? settle_x(request, x, "the resident X", fault) : GEMMD_OK;
    if (code == GEMMD_OK && w != NULL)
        code = settle_w(request, w, "the resident W", fault);
    return code;
}

static enum gemmd_error settle_bias(const struct conv2d_request *request, struct tensor *bias,
                                    struct fault *fault)
{
    if (!operand_is_there(bias))
        return GEMMD_OK;
    if (bias->dtype != request->out || bias->rank != 1 || bias->dims[0] != request->filters)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                         "the bias must be one vector of filters=%" PRIu64 " elements of %s",
                         request->filters, dtype_name(request->out));
    bias->fortran = false;
    return GEMMD_OK;
}

static enum gemmd_error settle_arrays(struct conv2d_request *request,
                                      struct conv2d_operands *operands, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    if (operand_is_there(&operands->x))
        code = settle_x(request, &operands->x, "X", fault);
    if (code == GEMMD_OK && operand_is_there(&operands->w))
        code = settle_w(request, &operands->w, "W", fault);
    if (code == GEMMD_OK)
        code = conv2d_request_settle(request, fault);
    return code == GEMMD_OK ? settle_bias(request, &operands->bias, fault) : code;
}

/* ---- all formats ---- */

enum gemmd_error conv2d_request_bind_tensors(struct conv2d_request *request,
                                             struct conv2d_operands *operands, struct fault *fault)
{
    request->bias = operand_is_there(&operands->bias);
    const uint32_t i = operand_mismatch(&conv2d_operand_table, request, operands->all);
    if (i == CONV2D_OPERANDS)
        return settle_arrays(request, operands, fault);
    return fault_set(fault, GEMMD_ERR_MALFORMED, conv2d_operand_table.operands[i].field,
                     operand_is_there(&operands->all[i]) ? "the request sends %s, which is resident"
                                                         : "the request lacks %s",
                     conv2d_operand_table.operands[i].title);
}

enum gemmd_error conv2d_request_bind_front(struct conv2d_request *request, enum format format,
                                           struct body_front *front,
                                           struct conv2d_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        conv2d_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    enum gemmd_error code = operand_bind_front(&conv2d_operand_table, request, request->elsewhere,
                                               format, front, carrier, operands->all, fault);
    if (code != GEMMD_OK || format == FORMAT_RAW)
        return code;
    if (format == FORMAT_SAFETENSORS) {
        if (!conv2d_request_given(request, "bias"))
            request->bias = operand_is_there(&operands->bias);
        code = operand_check_named(&conv2d_operand_table, request, operands->all, fault);
    }
    return code == GEMMD_OK ? settle_arrays(request, operands, fault) : code;
}

enum gemmd_error conv2d_request_bind(struct conv2d_request *request, enum format format,
                                     const void *body, uint64_t bytes,
                                     struct conv2d_operands *operands, struct fault *fault)
{
    struct body_front all = {.bytes = body, .length = bytes, .received = bytes};
    return conv2d_request_bind_front(request, format, &all, operands, fault);
}
