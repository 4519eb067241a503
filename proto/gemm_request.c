#include "proto/gemm_request.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "proto/dtype.h"
#include "proto/parameter.h"
#include "proto/size.h"

#define X(NAME, name) name,
static const char *const act_names[] = {GEMM_ACT_MAP(X) NULL};
#undef X

const struct parameter_values gemm_act_values = {.choices = act_names};
static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F64) | DTYPE_BIT(F32) |
                                                               DTYPE_BIT(F16) | DTYPE_BIT(BF16) |
                                                               DTYPE_BIT(F8_E4M3) | DTYPE_BIT(I8)};
static const struct parameter_values out_values = {
    .dtypes = DTYPE_BIT(F64) | DTYPE_BIT(F32) | DTYPE_BIT(F16) | DTYPE_BIT(BF16) | DTYPE_BIT(I32)};
static const struct parameter_values precision_values = {
    .choices = (const char *const[]){"full", "tf32", "f8", NULL}};
static const struct parameter_values scales_values = {.choices = gemm_scales_names};
static const struct parameter_values verify_values = {
    .choices = (const char *const[]){"none", "freivalds", NULL}};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(gemm_request, name, values)
    P(m, parameter_dim),        P(n, parameter_dim),          P(k, parameter_dim),
    P(dtype, dtype_values),     P(out, out_values),           P(precision, precision_values),
    P(scales, scales_values),   P(transa, parameter_flag),    P(transb, parameter_flag),
    P(alpha, parameter_number), P(beta, parameter_number),    P(batch, parameter_dim),
    P(bias, parameter_flag),    P(act, gemm_act_values),      P(a, parameter_tensor),
    P(b, parameter_tensor),     P(store, parameter_tensor),   P(kernel, parameter_kernel),
    P(verify, verify_values),   P(timeout_ms, parameter_dim), P(priority, parameter_priority),
#undef P
};

enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table gemm_parameter_table = {"/gemm", parameters, PARAMETER_COUNT,
                                                     offsetof(struct gemm_request, given)};

void gemm_request_init(struct gemm_request *request)
{
    *request = (struct gemm_request){
        .dtype = GEMMD_F32,
        .out = GEMMD_F32,
        .alpha = 1,
        .batch = 1,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
        .a_title = "A",
    };
}

enum gemmd_error gemm_request_set(struct gemm_request *request, const char *name, const char *value,
                                  struct fault *fault)
{
    return parameter_set(&gemm_parameter_table, request, name, value, fault);
}

bool gemm_request_given(const struct gemm_request *request, const char *name)
{
    return parameter_given(&gemm_parameter_table, request, name);
}

void gemm_request_mark_given(struct gemm_request *request, const char *name)
{
    parameter_mark_given(&gemm_parameter_table, request, name);
}

const char *gemm_request_missing_dim(const struct gemm_request *request)
{
    return request->m == 0 ? "m" : request->n == 0 ? "n" : request->k == 0 ? "k" : NULL;
}

/* Writes the result types that are offered for `dtype`: "f32, f16, bf16". */
static void list_outs(enum gemm_scales scales, enum gemmd_dtype dtype, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned out = 0; out < GEMMD_DTYPE_COUNT && length < capacity; out++)
        if (gemm_scales_offer(scales, dtype, (enum gemmd_dtype)out))
            length += (size_t)snprintf(text + length, capacity - length, "%s%s",
                                       length > 0 ? ", " : "", dtype_name((enum gemmd_dtype)out));
}

static bool is_i32(double value)
{
    return value >= INT32_MIN && value <= INT32_MAX && value == trunc(value);
}

enum gemmd_error gemm_request_settle_types(struct gemm_request *request, struct fault *fault)
{
    const bool has_scales = request->scales != GEMM_SCALES_NONE;
    if (request->packed_b && request->dtype != GEMMD_F16 && request->dtype != GEMMD_BF16)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "operands of %s are not offered with packed weights; f16 and bf16 are",
                         dtype_name(request->dtype));
    if (!gemm_request_given(request, "out"))
        request->out = gemm_scales_default_out(request->scales, request->dtype);
    if (has_scales && !gemm_scales_offer(request->scales, request->dtype, GEMMD_F32))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "scales",
                         "scales=%s is offered for operands of %s, not of %s",
                         gemm_scales_name(request->scales),
                         request->scales == GEMM_SCALES_BLOCK ? "f8_e4m3" : "f8_e4m3 and i8",
                         dtype_name(request->dtype));
    if (!gemm_scales_offer(request->scales, request->dtype, request->out)) {
        char outs[64];
        list_outs(request->scales, request->dtype, outs, sizeof outs);
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "out",
                         "out=%s is not offered for operands of %s%s; it can be %s",
                         dtype_name(request->out), dtype_name(request->dtype),
                         has_scales ? " with scales" : "", outs);
    }
    if (request->precision == GEMM_PRECISION_TF32 && request->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "precision",
                         "precision=tf32 is offered for operands of f32, not of %s",
                         dtype_name(request->dtype));
    if (request->precision == GEMM_PRECISION_F8 && request->dtype != GEMMD_F8_E4M3)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "precision",
                         "precision=f8 is offered for operands of f8_e4m3, not of %s",
                         dtype_name(request->dtype));
    if (request->out == GEMMD_I32) {
        if (!is_i32(request->alpha) || !is_i32(request->beta))
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED,
                             is_i32(request->alpha) ? "beta" : "alpha",
                             "results of i32 take whole numbers of 32 bits as alpha and beta; "
                             "out=f32 takes any");
        if (!gemm_act_is_exact(request->act))
            return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "act",
                             "act=%s is not offered for results of i32; none and relu are, and "
                             "out=f32 takes all",
                             gemm_act_name(request->act));
    } else if (request->out != GEMMD_F64) {
        const bool is_alpha = !parameter_fits_f32(request->alpha);
        if (is_alpha || !parameter_fits_f32(request->beta))
            return fault_set(fault, GEMMD_ERR_MALFORMED, is_alpha ? "alpha" : "beta",
                             "%s is %.17g; for results of %s it must be " PARAMETER_F32,
                             is_alpha ? "alpha" : "beta", is_alpha ? request->alpha : request->beta,
                             dtype_name(request->out));
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
                             "%s is missing; raw bodies need m, n and k, each " PARAMETER_DIM
                                 PARAMETER_OR_FORMAT,
                             missing);
    }
    if (request->verify == GEMM_VERIFY_FREIVALDS && request->act != GEMM_ACT_NONE)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "verify",
                         "verify=freivalds is offered with act=none, not with act=%s",
                         gemm_act_name(request->act));
    if (request->verify == GEMM_VERIFY_FREIVALDS && request->scales != GEMM_SCALES_NONE)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "verify",
                         "verify=freivalds is offered with scales=none, not with scales=%s",
                         gemm_scales_name(request->scales));
    request->scale_transa = request->transa;
    request->scale_transb = request->transb;
    /* If dtype is not known yet, gemm_request_bind checks the types with the arrays' type. */
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
