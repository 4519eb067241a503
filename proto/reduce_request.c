#include "proto/reduce_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/array_shape.h"
#include "proto/dtype.h"
#include "proto/parameter.h"
#include "proto/size.h"

static bool read_axis(const char *value, void *out)
{
    const bool negative = value[0] == '-';
    const char *digits = value + negative;
    if (digits[0] < '0' || digits[0] > '8' || digits[1] != '\0' || (digits[0] == '8' && !negative))
        return false;
    const int32_t axis = digits[0] - '0';
    *(int32_t *)out = negative ? -axis : axis;
    return !negative || axis > 0;
}

static const struct parameter_values op_values = {
    .choices =
        (const char *const[]){"sum", "mean", "max", "min", "norm2", "logsumexp", "argmax", NULL}};
static const struct parameter_values axis_values = {.read = read_axis,
                                                    .allowed = "a whole number from -8 to 7"};
static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F64) | DTYPE_BIT(F32) |
                                                               DTYPE_BIT(F16) | DTYPE_BIT(BF16) |
                                                               DTYPE_BIT(I8) | DTYPE_BIT(I32)};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(reduce_request, name, values)
    P(shape, array_shape_values),
    P(op, op_values),
    P(axis, axis_values),
    P(keepdims, parameter_flag),
    P(dtype, dtype_values),
    P(out, dtype_values),
    P(x, parameter_tensor),
    P(store, parameter_tensor),
    P(kernel, parameter_kernel),
    P(timeout_ms, parameter_dim),
    P(priority, parameter_priority),
#undef P
};
enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table reduce_parameter_table = {"/reduce", parameters, PARAMETER_COUNT,
                                                       offsetof(struct reduce_request, given)};

void reduce_request_init(struct reduce_request *request)
{
    *request = (struct reduce_request){
        .dtype = GEMMD_F32,
        .axis = -1,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
    };
}

const char *reduce_op_name(enum reduce_op op)
{
    return op_values.choices[op];
}

/* ---- types ---- */

static bool is_float(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F64 || dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16;
}

static bool is_integer(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_I8 || dtype == GEMMD_I32;
}

enum gemmd_dtype reduce_default_out(enum reduce_op op, enum gemmd_dtype dtype)
{
    if (op == REDUCE_ARGMAX)
        return GEMMD_I32;
    if (is_integer(dtype) && op == REDUCE_MEAN)
        return GEMMD_F64;
    return is_integer(dtype) && op == REDUCE_SUM ? GEMMD_I32 : dtype;
}

bool reduce_offers(enum reduce_op op, enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    const bool picks = op == REDUCE_MAX || op == REDUCE_MIN;
    if (op == REDUCE_ARGMAX)
        return (is_float(dtype) || is_integer(dtype)) && out == GEMMD_I32;
    if (is_integer(dtype))
        return (picks && out == dtype) ||
               (op == REDUCE_SUM && (out == GEMMD_I32 || out == GEMMD_F64)) ||
               (op == REDUCE_MEAN && (out == GEMMD_F32 || out == GEMMD_F64));
    return is_float(dtype) && (out == dtype || (out == GEMMD_F32 && dtype != GEMMD_F64 && !picks));
}

static enum gemmd_error settle_types(struct reduce_request *request, struct fault *fault)
{
    if (!parameter_given(&reduce_parameter_table, request, "out"))
        request->out = reduce_default_out(request->op, request->dtype);
    if (reduce_offers(request->op, request->dtype, request->out))
        return GEMMD_OK;
    const bool no_type = !reduce_offers(request->op, request->dtype,
                                        reduce_default_out(request->op, request->dtype));
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, no_type ? "dtype" : "out",
                     "%s of %s to %s is not offered; PROTOCOL.md lists the types of /reduce",
                     reduce_op_name(request->op), dtype_name(request->dtype),
                     dtype_name(request->out));
}

/* ---- shapes ---- */

static enum gemmd_error check_axis(const struct reduce_request *request, struct fault *fault)
{
    const int32_t rank = (int32_t)request->shape.rank;
    if (request->axis >= -rank && request->axis < rank)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, "axis",
                     "axis is %" PRId32 "; X has %" PRId32
                     " dimensions, so that axis must be from %" PRId32 " to %" PRId32,
                     request->axis, rank, -rank, rank - 1);
}

uint32_t reduce_request_axis(const struct reduce_request *request)
{
    const int32_t axis = request->axis;
    return (uint32_t)(axis < 0 ? axis + (int32_t)request->shape.rank : axis);
}

bool reduce_request_result(const struct reduce_request *request, struct tensor *y)
{
    const uint32_t axis = reduce_request_axis(request);
    uint64_t dims[TENSOR_MAX_RANK] = {1};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < request->shape.rank; i++)
        if (i != axis || request->keepdims)
            dims[rank++] = i == axis ? 1 : request->shape.dims[i];
    return tensor_init(y, request->out, dims, rank > 0 ? rank : 1, NULL);
}

/* Takes over the type and shape of X. */
static enum gemmd_error settle_x(struct reduce_request *request, const struct tensor *x,
                                 const char *title, struct fault *fault)
{
    if (x->dtype == GEMMD_F8_E4M3)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "%s is of type f8_e4m3, which /reduce does not offer", title);
    const struct array_request array = {&reduce_parameter_table, request, &request->shape,
                                        &request->dtype};
    return array_operand_settle(&array, x, title, fault);
}

enum gemmd_error reduce_request_settle_resident(struct reduce_request *request,
                                                const struct tensor *x, struct fault *fault)
{
    return x != NULL ? settle_x(request, x, "the resident X", fault) : GEMMD_OK;
}

enum gemmd_error reduce_request_check(struct reduce_request *request, enum format format,
                                      struct fault *fault)
{
    if (request->shape.rank == 0) /* the array of the body has type and shape */
        return array_operand_check_format(format, fault);
    const enum gemmd_error code = check_axis(request, fault);
    return code == GEMMD_OK ? settle_types(request, fault) : code;
}

/* ---- the operand ---- */

static bool is_wanted(const void *of, uint32_t operand)
{
    (void)operand;
    return ((const struct reduce_request *)of)->x[0] == '\0';
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct reduce_request *request = of;
    (void)operand;
    return tensor_init(tensor, request->dtype, request->shape.dims, request->shape.rank, NULL);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct reduce_request *request = of;
    char shape[128];
    array_shape_text(&request->shape, shape, sizeof shape);
    snprintf(out, room, "shape=%s in %s", shape, dtype_name(request->dtype));
}

struct reduce_variant {
    struct reduce_request request;
    uint64_t bytes;
};

static bool fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    const struct reduce_variant *variant = context;
    uint64_t bytes;
    return dtype != GEMMD_F8_E4M3 &&
           size_tensor_bytes(dtype, variant->request.shape.dims, variant->request.shape.rank,
                             &bytes) &&
           bytes == variant->bytes;
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    struct reduce_variant variant = {*(const struct reduce_request *)of, bytes};
    (void)elsewhere;
    if (bytes > 0)
        operand_guess_dtypes(out, variant.request.dtype, fits_with_dtype, &variant);
}

const struct operand_table reduce_operand_table = {
    .path = "/reduce",
    .names = "x",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .npy_more = "",
    .count = REDUCE_OPERANDS,
    .operands = {{"x", "X", "x", "x"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

enum gemmd_error reduce_request_bind_tensors(struct reduce_request *request,
                                             struct reduce_operands *operands, struct fault *fault)
{
    enum gemmd_error code = array_operand_check_sent(&operands->x, is_wanted(request, 0), fault);
    if (code == GEMMD_OK && operand_is_there(&operands->x))
        code = settle_x(request, &operands->x, "X", fault);
    return code == GEMMD_OK ? reduce_request_check(request, FORMAT_SAFETENSORS, fault) : code;
}

enum gemmd_error reduce_request_bind_front(struct reduce_request *request, enum format format,
                                           struct body_front *front,
                                           struct reduce_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier = parameter_given(&reduce_parameter_table, request, "dtype")
                                         ? request->dtype
                                         : GEMMD_DTYPE_COUNT;
    const enum gemmd_error code =
        operand_bind_front(&reduce_operand_table, request, request->elsewhere, format, front,
                           carrier, operands->all, fault);
    if (code != GEMMD_OK || format == FORMAT_RAW)
        return code;
    return reduce_request_bind_tensors(request, operands, fault);
}
