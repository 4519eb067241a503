#include "proto/gemm_request.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/size.h"

static const char *const act_names[] = {"none", "relu", "gelu", "gelu_tanh", "silu", NULL};
static const char *const precision_names[] = {"full", "tf32", NULL};
static const char *const verify_names[] = {"none", "freivalds", NULL};

/* How the value of a parameter is read into its place in the request. Each returns false if the
 * value is not one that `allowed`, below, speaks of. */

static bool read_dim(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number < 1 || number > GEMM_DIM_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

static bool read_priority(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number > GEMM_PRIORITY_MAX)
        return false;
    *(uint32_t *)out = (uint32_t)number;
    return true;
}

static bool read_number(const char *value, void *out)
{
    return number_f64(value, out);
}

static bool read_flag(const char *value, void *out)
{
    return number_flag(value, out);
}

static bool read_dtype(const char *value, void *out)
{
    enum gemmd_dtype dtype;
    if (!dtype_from_name(value, &dtype) || dtype == GEMMD_I32)
        return false;
    *(enum gemmd_dtype *)out = dtype;
    return true;
}

static bool read_out(const char *value, void *out)
{
    enum gemmd_dtype dtype;
    if (!dtype_from_name(value, &dtype) || dtype == GEMMD_F8_E4M3 || dtype == GEMMD_I8)
        return false;
    *(enum gemmd_dtype *)out = dtype;
    return true;
}

static bool read_choice(const char *value, const char *const *names, uint32_t *index)
{
    for (uint32_t i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], value) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

static bool read_precision(const char *value, void *out)
{
    uint32_t index;
    if (!read_choice(value, precision_names, &index))
        return false;
    *(enum gemm_precision *)out = (enum gemm_precision)index;
    return true;
}

static bool read_act(const char *value, void *out)
{
    uint32_t index;
    if (!read_choice(value, act_names, &index))
        return false;
    *(enum gemm_act *)out = (enum gemm_act)index;
    return true;
}

static bool read_verify(const char *value, void *out)
{
    uint32_t index;
    if (!read_choice(value, verify_names, &index))
        return false;
    *(enum gemm_verify *)out = (enum gemm_verify)index;
    return true;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* Copies a name of 1 ... `max` of the characters in `set`. */
static bool read_name(const char *value, const char *set, size_t max, char *out)
{
    size_t length = strlen(value);
    if (length < 1 || length > max || strspn(value, set) != length)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

static bool read_tensor_name(const char *value, void *out)
{
    return read_name(value, LOWER UPPER DIGITS "._-", GEMM_TENSOR_NAME_MAX, out);
}

static bool read_kernel_name(const char *value, void *out)
{
    return read_name(value, LOWER DIGITS "_", GEMM_KERNEL_NAME_MAX, out);
}

#define DIM "a whole number from 1 to 2147483647"
#define FLAG "0 or 1"
#define NAME "1 to 128 of the characters A-Z a-z 0-9 . _ -"

static const struct parameter {
    const char *name;
    bool (*read)(const char *value, void *out);
    size_t offset; /* of its place in struct gemm_request */
    const char *allowed;
} parameters[] = {
#define P(name, read, allowed)                                                                     \
    {                                                                                              \
#name, read, offsetof(struct gemm_request, name), allowed                                  \
    }
    P(m, read_dim, DIM),
    P(n, read_dim, DIM),
    P(k, read_dim, DIM),
    P(dtype, read_dtype, "one of f64, f32, f16, bf16, f8_e4m3, i8"),
    P(out, read_out, "one of f64, f32, f16, bf16, i32"),
    P(precision, read_precision, "one of full, tf32"),
    P(transa, read_flag, FLAG),
    P(transb, read_flag, FLAG),
    P(alpha, read_number, "a finite decimal such as -1.5e-3"),
    P(beta, read_number, "a finite decimal such as -1.5e-3"),
    P(batch, read_dim, DIM),
    P(bias, read_flag, FLAG),
    P(act, read_act, "one of none, relu, gelu, gelu_tanh, silu"),
    P(a, read_tensor_name, NAME),
    P(b, read_tensor_name, NAME),
    P(store, read_tensor_name, NAME),
    P(kernel, read_kernel_name, "auto or a kernel's name from /info"),
    P(verify, read_verify, "one of none, freivalds"),
    P(timeout_ms, read_dim, DIM),
    P(priority, read_priority, "a whole number from 0 to 9"),
#undef P
};

enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

void gemm_request_init(struct gemm_request *request)
{
    *request = (struct gemm_request){
        .dtype = GEMMD_F32,
        .out = GEMMD_F32,
        .alpha = 1,
        .batch = 1,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
    };
}

/* The index of a parameter; PARAMETER_COUNT if there is none of that name. */
static uint32_t find_parameter(const char *name)
{
    uint32_t index = 0;
    while (index < PARAMETER_COUNT && strcmp(parameters[index].name, name) != 0)
        index++;
    return index;
}

/* Writes the names of all parameters: "m, n, k, ...". */
static void list_parameters(char *text, size_t capacity)
{
    size_t length = 0;
    for (uint32_t i = 0; i < PARAMETER_COUNT && length < capacity; i++)
        length += (size_t)snprintf(text + length, capacity - length, "%s%s", i > 0 ? ", " : "",
                                   parameters[i].name);
}

enum gemmd_error gemm_request_set(struct gemm_request *request, const char *name, const char *value,
                                  struct fault *fault)
{
    uint32_t index = find_parameter(name);
    if (index == PARAMETER_COUNT) {
        char names[192];
        list_parameters(names, sizeof names);
        return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                         "there is no parameter '%.32s'; those of /gemm are %s", name, names);
    }
    const struct parameter *parameter = &parameters[index];
    if ((request->given & 1u << index) != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is given twice", name);
    if (value == NULL || !parameter->read(value, (char *)request + parameter->offset))
        return fault_set(fault, GEMMD_ERR_MALFORMED, name, "%s is '%.64s'; it must be %s", name,
                         value != NULL ? value : "", parameter->allowed);
    request->given |= 1u << index;
    return GEMMD_OK;
}

bool gemm_request_given(const struct gemm_request *request, const char *name)
{
    uint32_t index = find_parameter(name);
    return index < PARAMETER_COUNT && (request->given & 1u << index) != 0;
}

void gemm_request_mark_given(struct gemm_request *request, const char *name)
{
    request->given |= 1u << find_parameter(name);
}

const char *gemm_request_missing_dim(const struct gemm_request *request)
{
    return request->m == 0 ? "m" : request->n == 0 ? "n" : request->k == 0 ? "k" : NULL;
}

/* Writes the result types that are offered for `dtype`: "f32, f16, bf16". */
static void list_outs(enum gemmd_dtype dtype, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned out = 0; out < GEMMD_DTYPE_COUNT && length < capacity; out++)
        if (dtype_offers_out(dtype, (enum gemmd_dtype)out))
            length += (size_t)snprintf(text + length, capacity - length, "%s%s",
                                       length > 0 ? ", " : "", dtype_name((enum gemmd_dtype)out));
}

static bool is_i32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == trunc(value);
}

enum gemmd_error gemm_request_settle_types(struct gemm_request *request, struct fault *fault)
{
    if (!gemm_request_given(request, "out"))
        request->out = dtype_default_out(request->dtype);
    if (!dtype_offers_out(request->dtype, request->out)) {
        char outs[64];
        list_outs(request->dtype, outs, sizeof outs);
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "out",
                         "out=%s is not offered for operands of %s; %s is",
                         dtype_name(request->out), dtype_name(request->dtype), outs);
    }
    if (request->precision == GEMM_PRECISION_TF32 && request->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "precision",
                         "precision=tf32 is offered for operands of f32, not of %s",
                         dtype_name(request->dtype));
    if (request->out == GEMMD_I32) {
        if (!is_i32(request->alpha) || !is_i32(request->beta))
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED,
                             is_i32(request->alpha) ? "beta" : "alpha",
                             "results of i32 take whole numbers of 32 bits as alpha and beta; "
                             "out=f32 takes any");
        if (request->act != GEMM_ACT_NONE && request->act != GEMM_ACT_RELU)
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "act",
                             "act=%s is not offered for results of i32; none and relu are, and "
                             "out=f32 takes all",
                             gemm_act_name(request->act));
    }
    return GEMMD_OK;
}

enum gemmd_error gemm_request_check(struct gemm_request *request, enum format format,
                                    struct fault *fault)
{
    if (format == FORMAT_RAW) {
        const char *missing = gemm_request_missing_dim(request);
        if (missing != NULL)
            return fault_set(fault, GEMMD_ERR_MALFORMED, missing,
                             "%s is missing; raw bodies need m, n and k, each " DIM, missing);
    }
    if (request->verify == GEMM_VERIFY_FREIVALDS && request->act != GEMM_ACT_NONE)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "verify",
                         "verify=freivalds is offered with act=none, not with act=%s",
                         gemm_act_name(request->act));
    /* Otherwise the types are settled when the arrays have said theirs. */
    if (format == FORMAT_RAW || gemm_request_given(request, "dtype"))
        return gemm_request_settle_types(request, fault);
    return GEMMD_OK;
}

bool gemm_request_result_bytes(const struct gemm_request *request, uint64_t *out)
{
    const uint64_t dims[] = {request->batch, request->m, request->n};
    return size_tensor_bytes(request->out, dims, 3, out);
}

bool gemm_request_result(const struct gemm_request *request, const void *data,
                         struct tensor *tensor)
{
    const uint64_t dims[] = {request->batch, request->m, request->n};
    bool batched = request->batch > 1;
    return tensor_init(tensor, request->out, batched ? dims : dims + 1, batched ? 3 : 2, data);
}

const char *gemm_act_name(enum gemm_act act)
{
    return act_names[act];
}
