#include "proto/conv2d_request.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/parameter.h"

/* The parsers of parameters that only a convolution has. */

enum { SIDES = 4, NUMBER_BYTES = 24 };

/* Reads 1 to SIDES whole numbers from `least` to CONV_DIM_MAX with commas between them. Returns how
 * many; 0: the text is something else. */
static uint32_t read_list(const char *value, uint64_t least, uint64_t numbers[SIDES])
{
    for (uint32_t count = 0; count < SIDES; count++) {
        char number[NUMBER_BYTES];
        const size_t length = strcspn(value, ",");
        if (length >= sizeof number)
            return 0;
        memcpy(number, value, length);
        number[length] = '\0';
        if (!number_u64(number, &numbers[count]) || numbers[count] < least ||
            numbers[count] > CONV_DIM_MAX)
            return 0;
        if (value[length] == '\0')
            return count + 1;
        value += length + 1;
    }
    return 0;
}

static bool read_pair(const char *value, void *out)
{
    uint64_t numbers[SIDES];
    const uint32_t count = read_list(value, 1, numbers);
    if (count != 1 && count != 2)
        return false;
    *(struct conv2d_pair *)out = (struct conv2d_pair){numbers[0], numbers[count - 1]};
    return true;
}

static bool read_padding(const char *value, void *out)
{
    uint64_t n[SIDES];
    struct conv2d_padding *padding = out;
    if (strcmp(value, "same") == 0) {
        *padding = (struct conv2d_padding){.same = true};
        return true;
    }
    const uint32_t count = read_list(value, 0, n);
    if (count == 1)
        *padding = (struct conv2d_padding){false, n[0], n[0], n[0], n[0]};
    else if (count == 2)
        *padding = (struct conv2d_padding){false, n[0], n[0], n[1], n[1]};
    else if (count == SIDES)
        *padding = (struct conv2d_padding){false, n[0], n[1], n[2], n[3]};
    else
        return false;
    return true;
}

#define PAIR "a whole number from 1 to 2147483647, or one for height and one for width, such as 2,1"

static const struct parameter_values pair_values = {.read = read_pair, .allowed = PAIR};
static const struct parameter_values padding_values = {
    .read = read_padding,
    .allowed = "same, or 1, 2 or 4 whole numbers from 0 to 2147483647 with commas: all sides; top "
               "and bottom, left and right; or top, bottom, left, right"};
static const struct parameter_values layout_values = {
    .choices = (const char *const[]){"nchw", "nhwc", NULL}};
static const struct parameter_values w_layout_values = {
    .choices = (const char *const[]){"kcrs", "krsc", NULL}};
static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F32) | DTYPE_BIT(F16) |
                                                               DTYPE_BIT(BF16) | DTYPE_BIT(I8)};
static const struct parameter_values out_values = {.dtypes = DTYPE_BIT(F32) | DTYPE_BIT(F16) |
                                                             DTYPE_BIT(BF16) | DTYPE_BIT(I32)};
static const struct parameter_values precision_values = {
    .choices = (const char *const[]){"full", "tf32", NULL}};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(conv2d_request, name, values)
    P(batch, parameter_dim),         P(channels, parameter_dim),  P(height, parameter_dim),
    P(width, parameter_dim),         P(filters, parameter_dim),   P(filter_h, parameter_dim),
    P(filter_w, parameter_dim),      P(groups, parameter_dim),    P(stride, pair_values),
    P(dilation, pair_values),        P(padding, padding_values),  P(layout, layout_values),
    P(w_layout, w_layout_values),    P(dtype, dtype_values),      P(out, out_values),
    P(precision, precision_values),  P(alpha, parameter_f32),     P(bias, parameter_flag),
    P(act, gemm_act_values),         P(x, parameter_tensor),      P(w, parameter_tensor),
    P(store, parameter_tensor),      P(kernel, parameter_kernel), P(timeout_ms, parameter_dim),
    P(priority, parameter_priority),
#undef P
};

enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table conv2d_parameter_table = {"/conv2d", parameters, PARAMETER_COUNT,
                                                       offsetof(struct conv2d_request, given)};

void conv2d_request_init(struct conv2d_request *request)
{
    *request = (struct conv2d_request){
        .groups = 1,
        .stride = {1, 1},
        .dilation = {1, 1},
        .dtype = GEMMD_F32,
        .out = GEMMD_F32,
        .alpha = 1,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
    };
}

enum gemmd_error conv2d_request_set(struct conv2d_request *request, const char *name,
                                    const char *value, struct fault *fault)
{
    return parameter_set(&conv2d_parameter_table, request, name, value, fault);
}

bool conv2d_request_given(const struct conv2d_request *request, const char *name)
{
    return parameter_given(&conv2d_parameter_table, request, name);
}

void conv2d_request_mark_given(struct conv2d_request *request, const char *name)
{
    parameter_mark_given(&conv2d_parameter_table, request, name);
}

enum gemmd_error conv2d_request_shape(const struct conv2d_request *request,
                                      struct conv_shape *shape, struct fault *fault)
{
    const struct conv2d_request *r = request;
    *shape = (struct conv_shape){
        .layout = r->layout,
        .w_layout = r->w_layout,
        .batch = r->batch,
        .channels = r->channels,
        .height = r->height,
        .width = r->width,
        .filters = r->filters,
        .r = r->filter_h,
        .s = r->filter_w,
        .groups = r->groups,
        .stride_h = r->stride.h,
        .stride_w = r->stride.w,
        .dilation_h = r->dilation.h,
        .dilation_w = r->dilation.w,
        .pad_top = r->padding.top,
        .pad_bottom = r->padding.bottom,
        .pad_left = r->padding.left,
        .pad_right = r->padding.right,
    };
    if (r->padding.same)
        conv_shape_pad_same(shape);
    return conv_shape_settle(shape, fault);
}

static bool is_i32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == trunc(value);
}

static enum gemmd_error settle_types(struct conv2d_request *request, struct fault *fault)
{
    const bool integers = request->dtype == GEMMD_I8;
    if (!conv2d_request_given(request, "out"))
        request->out = integers ? GEMMD_I32 : request->dtype;
    if (integers ? request->out != GEMMD_I32 && request->out != GEMMD_F32
                 : request->out != request->dtype)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "out",
                         "out=%s is not offered for a convolution of %s; it can be %s",
                         dtype_name(request->out), dtype_name(request->dtype),
                         integers ? "i32, f32" : dtype_name(request->dtype));
    if (request->precision == GEMM_PRECISION_TF32 && request->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "precision",
                         "precision=tf32 is offered for operands of f32, not of %s",
                         dtype_name(request->dtype));
    if (request->out != GEMMD_I32)
        return GEMMD_OK;
    if (!is_i32(request->alpha))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "alpha",
                         "alpha must be a whole number that fits in 32 bits where the result is "
                         "i32; out=f32 takes any");
    if (!gemm_act_is_exact(request->act))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "act",
                         "act=%s is not offered where the result is i32; none and relu are",
                         gemm_act_name(request->act));
    return GEMMD_OK;
}

enum gemmd_error conv2d_request_settle(struct conv2d_request *request, struct fault *fault)
{
    struct conv_shape shape;
    request->batch = request->batch == 0 ? 1 : request->batch;
    const enum gemmd_error code = settle_types(request, fault);
    return code == GEMMD_OK ? conv2d_request_shape(request, &shape, fault) : code;
}

enum gemmd_error conv2d_request_check(struct conv2d_request *request, enum format format,
                                      struct fault *fault)
{
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {{"channels", request->channels}, {"height", request->height},
                 {"width", request->width},       {"filters", request->filters},
                 {"filter_h", request->filter_h}, {"filter_w", request->filter_w}};
    if (format != FORMAT_RAW)
        return GEMMD_OK; /* the arrays of the body give the sizes */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value == 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, sizes[i].name,
                             "%s is missing; raw bodies need channels, height, width, filters, "
                             "filter_h and filter_w, each " PARAMETER_DIM PARAMETER_OR_FORMAT,
                             sizes[i].name);
    return conv2d_request_settle(request, fault);
}

bool conv2d_request_result(const struct conv2d_request *request, struct tensor *y)
{
    struct conv_shape s;
    struct fault fault;
    if (conv2d_request_shape(request, &s, &fault) != GEMMD_OK)
        return false;
    const uint64_t first[] = {s.batch, s.filters, s.out_height, s.out_width};
    const uint64_t last[] = {s.batch, s.out_height, s.out_width, s.filters};
    return tensor_init(y, request->out, request->layout == CONV_NCHW ? first : last, 4, NULL);
}
