#include "proto/softmax_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/array_shape.h"
#include "proto/dtype.h"
#include "proto/parameter.h"
#include "proto/size.h"

enum { LENS, X };

static bool read_lens(const char *value, void *out)
{
    if (value[0] < '0' || value[0] >= '0' + TENSOR_MAX_RANK || value[1] != '\0')
        return false;
    *(uint32_t *)out = (uint32_t)(value[0] - '0');
    return true;
}

static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F64) | DTYPE_BIT(F32) |
                                                               DTYPE_BIT(F16) | DTYPE_BIT(BF16)};
static const struct parameter_values lens_values = {
    .read = read_lens,
    .allowed = "a whole number from 0 to 7: how many leading dimensions have lengths"};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(softmax_request, name, values)
    P(shape, array_shape_values), P(dtype, dtype_values),          P(out, dtype_values),
    P(scale, parameter_f32),      P(log, parameter_flag),          P(lens, lens_values),
    P(x, parameter_tensor),       P(store, parameter_tensor),      P(kernel, parameter_kernel),
    P(timeout_ms, parameter_dim), P(priority, parameter_priority),
#undef P
};
enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table softmax_parameter_table = {"/softmax", parameters, PARAMETER_COUNT,
                                                        offsetof(struct softmax_request, given)};

void softmax_request_init(struct softmax_request *request)
{
    *request = (struct softmax_request){
        .dtype = GEMMD_F32,
        .scale = 1,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
    };
}

bool softmax_offers(enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    return parameter_takes_dtype(&dtype_values, dtype) &&
           (out == dtype || (out == GEMMD_F32 && dtype != GEMMD_F64));
}

static bool softmax_given(const struct softmax_request *request, const char *name)
{
    return parameter_given(&softmax_parameter_table, request, name);
}

static enum gemmd_error settle_types(struct softmax_request *request, struct fault *fault)
{
    if (!softmax_given(request, "out"))
        request->out = request->dtype;
    if (softmax_offers(request->dtype, request->out))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "out",
                     "softmax of %s to %s is not offered; out can be the type of X, or f32 for X "
                     "of f16 and bf16",
                     dtype_name(request->dtype), dtype_name(request->out));
}

/* Takes over the type and shape of X. */
static enum gemmd_error settle_x(struct softmax_request *request, const struct tensor *x,
                                 const char *title, struct fault *fault)
{
    if (!parameter_takes_dtype(&dtype_values, x->dtype))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "%s is of type %s; /softmax is offered in f64, f32, f16 and bf16", title,
                         dtype_name(x->dtype));
    const struct array_request array = {&softmax_parameter_table, request, &request->shape,
                                        &request->dtype};
    return array_operand_settle(&array, x, title, fault);
}

enum gemmd_error softmax_request_settle_resident(struct softmax_request *request,
                                                 const struct tensor *x, struct fault *fault)
{
    return x != NULL ? settle_x(request, x, "the resident X", fault) : GEMMD_OK;
}

enum gemmd_error softmax_request_check(struct softmax_request *request, enum format format,
                                       struct fault *fault)
{
    if (request->shape.rank == 0) /* the array of the body has type and shape */
        return array_operand_check_format(format, fault);
    if (request->lens >= request->shape.rank)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "lens is %" PRIu32 "; X has %" PRIu32
                         " dimensions, of which lens must leave the last",
                         request->lens, request->shape.rank);
    return settle_types(request, fault);
}

bool softmax_request_result(const struct softmax_request *request, struct tensor *y)
{
    return tensor_init(y, request->out, request->shape.dims, request->shape.rank, NULL);
}

/* ---- the operands ---- */

static bool is_wanted(const void *of, uint32_t operand)
{
    const struct softmax_request *request = of;
    return operand == LENS ? request->lens > 0 : request->x[0] == '\0';
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct softmax_request *request = of;
    return operand == LENS
               ? tensor_init(tensor, GEMMD_I32, request->shape.dims, request->lens, NULL)
               : tensor_init(tensor, request->dtype, request->shape.dims, request->shape.rank,
                             NULL);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct softmax_request *request = of;
    char shape[128];
    array_shape_text(&request->shape, shape, sizeof shape);
    snprintf(out, room, "shape=%s in %s%s", shape, dtype_name(request->dtype),
             request->lens > 0 ? " with lengths" : "");
}

/* A request that differs from a client's in its type, to see if its body has the length `bytes`. */
struct softmax_variant {
    struct softmax_request request;
    uint32_t elsewhere;
    uint64_t bytes;
};

static bool fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    struct softmax_variant variant = *(const struct softmax_variant *)context;
    struct operand_layout layout;
    variant.request.dtype = dtype;
    return parameter_takes_dtype(&dtype_values, dtype) &&
           operand_layout_compute(&layout, &softmax_operand_table, &variant.request,
                                  variant.elsewhere) &&
           layout.bytes == variant.bytes;
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    struct softmax_variant variant = {*(const struct softmax_request *)of, elsewhere, bytes};
    if (bytes > 0 && variant.request.x[0] == '\0')
        operand_guess_dtypes(out, variant.request.dtype, fits_with_dtype, &variant);
}

/* The lengths determine which elements the kernel reads. The client may change shared memory at any
 * time, so that the lengths can be in the body only. */
const struct operand_table softmax_operand_table = {
    .path = "/softmax",
    .names = "x, lens",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .npy_more = "",
    .count = SOFTMAX_OPERANDS,
    .operands = {{"lens", "the lengths", NULL, "lens"}, {"x", "X", "x", "x"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

/* Takes over the number of dimensions of the lengths, and checks their type and shape. */
static enum gemmd_error settle_lens(struct softmax_request *request, struct tensor *lens,
                                    struct fault *fault)
{
    const struct array_shape *shape = &request->shape;
    if (!operand_is_there(lens))
        return GEMMD_OK;
    if (lens->dtype != GEMMD_I32 || lens->rank >= shape->rank ||
        memcmp(lens->dims, shape->dims, lens->rank * sizeof lens->dims[0]) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "the lengths must be of type i32 and have the shape of the first "
                         "dimensions of X, without the last");
    if (softmax_given(request, "lens") && request->lens != lens->rank)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         "the lengths have %" PRIu32 " dimensions and the parameter says %" PRIu32,
                         lens->rank, request->lens);
    request->lens = lens->rank;
    return GEMMD_OK;
}

enum gemmd_error softmax_request_bind_tensors(struct softmax_request *request,
                                              struct softmax_operands *operands,
                                              struct fault *fault)
{
    const bool has_x = operand_is_there(&operands->x), has_lens = operand_is_there(&operands->lens);
    enum gemmd_error code = array_operand_check_sent(&operands->x, is_wanted(request, X), fault);
    if (code == GEMMD_OK && has_lens != (request->lens > 0) && softmax_given(request, "lens"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                         has_lens ? "the parameter lens says that there are no lengths"
                                  : "the request lacks the lengths");
    if (code == GEMMD_OK && has_x)
        code = settle_x(request, &operands->x, "X", fault);
    if (code == GEMMD_OK)
        code = settle_lens(request, &operands->lens, fault);
    return code == GEMMD_OK ? softmax_request_check(request, FORMAT_SAFETENSORS, fault) : code;
}

enum gemmd_error softmax_request_bind_front(struct softmax_request *request, enum format format,
                                            struct body_front *front,
                                            struct softmax_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        softmax_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    const enum gemmd_error code =
        operand_bind_front(&softmax_operand_table, request, request->elsewhere, format, front,
                           carrier, operands->all, fault);
    if (code != GEMMD_OK || format == FORMAT_RAW)
        return code;
    return softmax_request_bind_tensors(request, operands, fault);
}

enum gemmd_error softmax_request_check_lens(const struct softmax_request *request,
                                            const struct softmax_operands *operands,
                                            struct fault *fault)
{
    const uint64_t length = request->shape.dims[request->shape.rank - 1];
    const uint64_t count = operands->lens.bytes / sizeof(int32_t);
    for (uint64_t i = 0; operand_is_there(&operands->lens) && i < count; i++) {
        int32_t value;
        memcpy(&value, (const char *)operands->lens.data + i * sizeof value, sizeof value);
        if (value < 0 || (uint64_t)value > length)
            return fault_set(fault, GEMMD_ERR_MALFORMED, "lens",
                             "of the lengths, number %" PRIu64 " is %" PRId32
                             "; it must be from 0 to %" PRIu64 ", the length of a row",
                             i, value, length);
    }
    return GEMMD_OK;
}
