/* gemmctl conv: a two-dimensional convolution. */
#include <string.h>

#include "client/gemmctl/array_command.h"
#include "client/gemmctl/check.h"
#include "client/gemmctl/parameters.h"

enum { X, W, BIAS };

static enum gemmd_dtype conv_carrier(const void *argument, const struct tensor *before,
                                     uint32_t operand)
{
    const struct conv2d_request *request = argument;
    if (operand != BIAS)
        return conv2d_request_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    if (conv2d_request_given(request, "out"))
        return request->out;
    return before[X].rank > 0 ? before[X].dtype : request->dtype;
}

static bool knows_sizes(const void *argument)
{
    const struct conv2d_request *r = argument;
    return r->channels != 0 && r->height != 0 && r->width != 0 && r->filters != 0 &&
           r->filter_h != 0 && r->filter_w != 0;
}

static bool conv_raw_operand(const void *argument, const struct tensor *before, uint32_t operand,
                             struct tensor *out)
{
    struct conv2d_request request = *(const struct conv2d_request *)argument;
    (void)before;
    /* A contradiction between parameters is refused later, when all operands are known. */
    (void)conv2d_request_settle(&request, &(struct fault){0});
    return conv2d_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &conv2d_operand_table,
    .of = "a convolution",
    .sizes = "--channels, --height, --width, --filters, --filter-h and --filter-w",
    .carrier = conv_carrier,
    .knows_sizes = knows_sizes,
    .raw = conv_raw_operand,
};

static enum gemmd_error settle_residents(void *request, const struct tensor *const residents[],
                                         struct fault *fault)
{
    return conv2d_request_settle_residents(request, residents[X], residents[W], fault);
}

static enum gemmd_error set_random(void *argument, const uint64_t *sizes, uint32_t rank,
                                   struct fault *fault)
{
    struct conv2d_request *r = argument;
    const bool first = r->layout == CONV_NCHW;
    if (rank != 4)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random must be the four sizes of X, such as %s",
                         first ? "8x64x56x56 (batch, channels, height, width)"
                               : "8x56x56x64 (batch, height, width, channels)");
    if (r->batch != 0 || r->channels != 0 || r->height != 0 || r->width != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets the sizes of X; leave out --batch, --channels, --height "
                         "and --width");
    if (r->filters == 0 || r->filter_h == 0 || r->filter_w == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets the sizes of X; give those of W by --filters, --filter-h "
                         "and --filter-w");
    r->batch = sizes[0];
    r->channels = sizes[first ? 1 : 3];
    r->height = sizes[first ? 2 : 1];
    r->width = sizes[first ? 3 : 2];
    return conv2d_request_settle(r, fault);
}

static struct conv2d_operands operands_of(const struct tensor *operands)
{
    return (struct conv2d_operands)
    {
        .x = operands[X], .w = operands[W], .bias = operands[BIAS]
    };
}

static enum gemmd_error bind(void *request, struct tensor *operands, struct fault *fault)
{
    struct conv2d_operands bound = operands_of(operands);
    enum gemmd_error code = conv2d_request_bind_tensors(request, &bound, fault);
    operands[BIAS].fortran = bound.bias.fortran;
    return code;
}

static bool conv_result(const void *request, struct tensor *y)
{
    return conv2d_request_result(request, y);
}

/* Sets the sizes of the convolution. The padding of `same` is settled here, so that the daemon gets
 * numbers. */
static void set_shape(const struct conv2d_request *r, struct gemmd_conv2d *conv)
{
    struct conv_shape s;
    struct fault fault;
    (void)conv2d_request_shape(r, &s, &fault); /* the request is settled */
    conv->batch = s.batch;
    conv->channels = s.channels;
    conv->height = s.height;
    conv->width = s.width;
    conv->filters = s.filters;
    conv->r = s.r;
    conv->s = s.s;
    conv->groups = s.groups;
    conv->stride_h = s.stride_h;
    conv->stride_w = s.stride_w;
    conv->dilation_h = s.dilation_h;
    conv->dilation_w = s.dilation_w;
    conv->pad_top = s.pad_top;
    conv->pad_bottom = s.pad_bottom;
    conv->pad_left = s.pad_left;
    conv->pad_right = s.pad_right;
    conv->layout = (enum gemmd_conv_layout)s.layout;
    conv->w_layout = (enum gemmd_conv_w_layout)s.w_layout;
}

static struct gemmd_request *submit(struct gemmd_client *client, const struct array_call *call,
                                    struct gemmd_error_info *error)
{
    const struct conv2d_request *r = call->request;
    struct gemmd_conv2d conv;
    gemmd_conv2d_init(&conv, sizeof conv);
    set_shape(r, &conv);
    conv.dtype = r->dtype;
    conv.out = (int32_t)r->out;
    conv.precision = (enum gemmd_precision)r->precision;
    conv.act = (enum gemmd_act)r->act;
    conv.priority = r->priority;
    conv.alpha = r->alpha;
    conv.x = call->operands[X].data;
    conv.w = call->operands[W].data;
    conv.bias = call->operands[BIAS].data;
    conv.x_tensor = r->x[0] != '\0' ? r->x : NULL;
    conv.w_tensor = r->w[0] != '\0' ? r->w : NULL;
    conv.store = r->store[0] != '\0' ? r->store : NULL;
    conv.y = call->y;
    conv.y_bytes = call->y_bytes;
    conv.kernel = conv2d_request_given(r, "kernel") ? r->kernel : NULL;
    conv.timeout_ms = call->timeout_ms;
    conv.job = call->job;
    conv.user = call->user;
    return gemmd_conv2d_submit(client, &conv, error);
}

static double flops(const void *request)
{
    return flops_of_conv(request);
}

static enum gemmd_error check_result(const struct array_call *call, struct progress_line *line,
                                     struct check *check)
{
    const struct conv2d_operands operands = operands_of(call->operands);
    return check_conv(call->request, &operands, call->y, line, check);
}

const struct array_command conv_command = {
    .files = &kind,
    .parameters = &conv2d_parameter_table,
    .result_name = "y",
    .result_title = "Y",
    .first = X,
    .residents = 1u << X | 1u << W,
    .settle_residents = settle_residents,
    .set_random = set_random,
    .bind = bind,
    .result = conv_result,
    .submit = submit,
    .flops = flops,
    .check = check_result,
};

int command_conv(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const char *const paths[TENSOR_FILES_MAX] = {
        [X] = arguments->operands[0],
        [W] = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        [BIAS] = arguments->values[OPTION_BIAS],
    };
    struct conv2d_request request;
    conv2d_request_init(&request);
    return array_command_run(context, &conv_command, &request, paths);
}
