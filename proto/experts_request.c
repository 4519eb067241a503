#include "proto/experts_request.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"

enum { A, W, EXPERTS, WEIGHTS, BIAS };

static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F64) | DTYPE_BIT(F32) |
                                                               DTYPE_BIT(F16) | DTYPE_BIT(BF16)};
static const struct parameter_values precision_values = {
    .choices = (const char *const[]){"full", "tf32", NULL}};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(experts_request, name, values)
    P(m, parameter_dim),
    P(n, parameter_dim),
    P(k, parameter_dim),
    P(count, parameter_dim),
    P(topk, parameter_dim),
    P(dtype, dtype_values),
    P(out, dtype_values),
    P(transb, parameter_flag),
    P(glu, parameter_flag),
    P(precision, precision_values),
    P(act, gemm_act_values),
    P(weights, parameter_flag),
    P(bias, parameter_flag),
    P(a, parameter_tensor),
    P(w, parameter_tensor),
    P(store, parameter_tensor),
    P(kernel, parameter_kernel),
    P(timeout_ms, parameter_dim),
    P(priority, parameter_priority),
#undef P
};
enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table experts_parameter_table = {"/experts", parameters, PARAMETER_COUNT,
                                                        offsetof(struct experts_request, given)};

void experts_request_init(struct experts_request *request)
{
    *request = (struct experts_request){
        .dtype = GEMMD_F32,
        .out = GEMMD_F32,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
    };
}

static bool experts_given(const struct experts_request *request, const char *name)
{
    return parameter_given(&experts_parameter_table, request, name);
}

bool experts_offers(enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    return parameter_takes_dtype(&dtype_values, dtype) && dtype_offers_out(dtype, out);
}

/* Sets `out` to its default, unless it was given, and checks what does not depend on the body. */
static enum gemmd_error settle(struct experts_request *request, struct fault *fault)
{
    request->topk = request->topk == 0 ? 1 : request->topk;
    if (!experts_given(request, "out"))
        request->out = dtype_default_out(request->dtype);
    if (!experts_offers(request->dtype, request->out))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "out",
                         "experts of %s to %s are not offered; out can be the type of A, f32 for A "
                         "of f16 and bf16, and f16 and bf16 for A of f32",
                         dtype_name(request->dtype), dtype_name(request->out));
    if (request->precision == GEMM_PRECISION_TF32 && request->dtype != GEMMD_F32)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "precision",
                         "precision=tf32 is offered for operands of f32, not of %s",
                         dtype_name(request->dtype));
    if (request->n > GEMM_DIM_MAX / 2 && request->glu)
        return fault_set(
            fault, GEMMD_ERR_TOO_LARGE, "n",
            "with glu=1 an expert has 2*n columns, which is more than %d for n=%" PRIu64,
            GEMM_DIM_MAX, request->n);
    return GEMMD_OK;
}

enum gemmd_error experts_request_check(struct experts_request *request, enum format format,
                                       struct fault *fault)
{
    const struct {
        const char *name;
        uint64_t value;
    } sizes[] = {
        {"m", request->m}, {"n", request->n}, {"k", request->k}, {"count", request->count}};
    if (format != FORMAT_RAW)
        return GEMMD_OK; /* the arrays of the body give the sizes */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value == 0)
            return fault_set(fault, GEMMD_ERR_MALFORMED, sizes[i].name,
                             "%s is missing; raw bodies need m, n, k and count (the experts of W), "
                             "each " PARAMETER_DIM ", unless a resident A or W gives "
                             "them" PARAMETER_OR_FORMAT,
                             sizes[i].name);
    return settle(request, fault);
}

bool experts_request_result(const struct experts_request *request, struct tensor *c)
{
    const uint64_t dims[] = {request->m, request->n};
    return tensor_init(c, request->out, dims, 2, NULL);
}

/* ---- the operands ---- */

static bool is_wanted(const void *of, uint32_t operand)
{
    const struct experts_request *request = of;
    const bool wanted[EXPERTS_OPERANDS] = {request->a[0] == '\0', request->w[0] == '\0', true,
                                           request->weights, request->bias};
    return wanted[operand];
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct experts_request *r = of;
    const uint64_t columns = experts_request_columns(r), topk = r->topk == 0 ? 1 : r->topk;
    const uint64_t a[] = {r->m, r->k}, places[] = {r->m, topk}, bias[] = {r->count, columns};
    const uint64_t w[] = {r->count, r->transb ? columns : r->k, r->transb ? r->k : columns};
    switch (operand) {
    case A:
        return tensor_init(tensor, r->dtype, a, 2, NULL);
    case W:
        return tensor_init(tensor, r->dtype, w, 3, NULL);
    case EXPERTS:
        return tensor_init(tensor, GEMMD_I32, places, 2, NULL);
    case WEIGHTS:
        return tensor_init(tensor, GEMMD_F32, places, 2, NULL);
    default:
        return tensor_init(tensor, r->out, bias, 2, NULL);
    }
}

static void describe(const void *of, char *out, size_t room)
{
    const struct experts_request *r = of;
    snprintf(out, room,
             "m=%" PRIu64 " n=%" PRIu64 " k=%" PRIu64 " count=%" PRIu64 " topk=%" PRIu64
             " in %s%s%s%s",
             r->m, r->n, r->k, r->count, r->topk, dtype_name(r->dtype), r->glu ? " with glu" : "",
             r->weights ? " with weights" : "", r->bias ? " with bias" : "");
}

/* A request that differs from a client's in one thing, to see if its body has the length `bytes`.
 */
struct experts_variant {
    struct experts_request request;
    uint32_t elsewhere;
    uint64_t bytes;
};

static bool experts_variant_fits(const struct experts_variant *variant)
{
    struct operand_layout layout;
    return operand_layout_compute(&layout, &experts_operand_table, &variant->request,
                                  variant->elsewhere) &&
           layout.bytes == variant->bytes;
}

static bool experts_fits_with_dtype(void *context, enum gemmd_dtype dtype)
{
    struct experts_variant variant = *(const struct experts_variant *)context;
    variant.request.dtype = dtype;
    variant.request.out = dtype_default_out(dtype);
    return parameter_takes_dtype(&dtype_values, dtype) && experts_variant_fits(&variant);
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    const struct experts_request *r = of;
    struct experts_variant variant = {*r, elsewhere, bytes};
    if (bytes == 0)
        return;
    if (r->a[0] == '\0' && r->w[0] == '\0')
        operand_guess_dtypes(out, r->dtype, experts_fits_with_dtype, &variant);
    variant.request.weights = !r->weights;
    if (experts_variant_fits(&variant))
        operand_guess_add(out, r->weights ? "are the weights missing" : "is weights=1 missing");
    variant.request = *r;
    variant.request.bias = !r->bias;
    if (experts_variant_fits(&variant))
        operand_guess_add(out, r->bias ? "is the bias missing" : "is bias=1 missing");
    variant.request = *r;
    variant.request.glu = !r->glu;
    if (experts_variant_fits(&variant))
        operand_guess_add(out, r->glu ? "is glu=1 wrong" : "is glu=1 missing");
}

/* The numbers of the experts are checked before a kernel uses them. The client may change shared
 * memory at any time, so that the numbers can be in the body only. */
const struct operand_table experts_operand_table = {
    .path = "/experts",
    .names = "a, w, experts, weights, bias",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .npy_more = " (weights=1 and bias=1 add arrays after the numbers of the experts)",
    .count = EXPERTS_OPERANDS,
    .operands = {{"a", "A", "a", "a"},
                 {"w", "W", "w", "w"},
                 {"experts", "the numbers of the experts", NULL, "experts"},
                 {"weights", "the weights", "weights", "weights"},
                 {"bias", "the bias", "bias", "bias"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

/* ---- formats whose arrays have types and shapes ---- */

static enum gemmd_error settle_dtype(struct experts_request *request, const struct tensor *tensor,
                                     const char *title, struct fault *fault)
{
    if (!parameter_takes_dtype(&dtype_values, tensor->dtype))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "dtype",
                         "%s is of type %s; experts are offered in f64, f32, f16 and bf16", title,
                         dtype_name(tensor->dtype));
    if (experts_given(request, "dtype") && tensor->dtype != request->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "%s is of type %s and the parameter or another operand says %s; both must "
                         "be the same",
                         title, dtype_name(tensor->dtype), dtype_name(request->dtype));
    request->dtype = tensor->dtype;
    parameter_mark_given(&experts_parameter_table, request, "dtype");
    return GEMMD_OK;
}

static enum gemmd_error settle_size(const char *name, uint64_t *size, uint64_t value,
                                    const char *title, struct fault *fault)
{
    return operand_settle_size(name, size, value, title, "the parameter or another operand", fault);
}

static enum gemmd_error check_rank(const struct tensor *tensor, uint32_t rank, const char *title,
                                   const char *dimensions, struct fault *fault)
{
    return tensor->rank == rank
               ? GEMMD_OK
               : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                           "%s has %" PRIu32 " dimensions; it must have %" PRIu32 ": %s", title,
                           tensor->rank, rank, dimensions);
}

static enum gemmd_error settle_a(struct experts_request *request, const struct tensor *a,
                                 const char *title, struct fault *fault)
{
    enum gemmd_error code = check_rank(a, 2, title, "m, k", fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, a, title, fault);
    if (code == GEMMD_OK)
        code = settle_size("m", &request->m, a->dims[0], title, fault);
    return code == GEMMD_OK ? settle_size("k", &request->k, a->dims[1], title, fault) : code;
}

static enum gemmd_error settle_w(struct experts_request *request, const struct tensor *w,
                                 const char *title, struct fault *fault)
{
    const bool transb = request->transb;
    enum gemmd_error code =
        check_rank(w, 3, title, transb ? "count, columns, k" : "count, k, columns", fault);
    if (code == GEMMD_OK)
        code = settle_dtype(request, w, title, fault);
    if (code == GEMMD_OK)
        code = settle_size("count", &request->count, w->dims[0], title, fault);
    if (code == GEMMD_OK)
        code = settle_size("k", &request->k, w->dims[transb ? 2 : 1], title, fault);
    if (code != GEMMD_OK)
        return code;
    const uint64_t columns = w->dims[transb ? 1 : 2];
    if (request->glu && columns % 2 != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "glu",
                         "%s has experts of %" PRIu64
                         " columns; with glu=1 the number must be even: a half is the gate",
                         title, columns);
    return settle_size("n", &request->n, request->glu ? columns / 2 : columns, title, fault);
}

enum gemmd_error experts_request_settle_residents(struct experts_request *request,
                                                  const struct tensor *a, const struct tensor *w,
                                                  struct fault *fault)
{
    enum gemmd_error code = a != NULL ? settle_a(request, a, "the resident A", fault) : GEMMD_OK;
    if (code == GEMMD_OK && w != NULL)
        code = settle_w(request, w, "the resident W", fault);
    return code;
}

/* Takes over the places of the rows from an array of one element for each. */
static enum gemmd_error settle_places(struct experts_request *request, struct tensor *places,
                                      enum gemmd_dtype dtype, const char *field, const char *title,
                                      struct fault *fault)
{
    if (!operand_is_there(places))
        return GEMMD_OK;
    if (places->dtype != dtype || places->rank > 2)
        return fault_set(fault, GEMMD_ERR_MALFORMED, field,
                         "%s must be of type %s and have the shape m, topk, or m if topk is 1",
                         title, dtype_name(dtype));
    const uint64_t topk = places->rank == 2 ? places->dims[1] : 1;
    const enum gemmd_error code = settle_size("m", &request->m, places->dims[0], title, fault);
    places->fortran = places->fortran && places->rank == 2;
    return code == GEMMD_OK ? settle_size("topk", &request->topk, topk, title, fault) : code;
}

static enum gemmd_error check_bias(const struct experts_request *request, const struct tensor *bias,
                                   struct fault *fault)
{
    if (!operand_is_there(bias) ||
        (bias->dtype == request->out && bias->rank == 2 && bias->dims[0] == request->count &&
         bias->dims[1] == experts_request_columns(request)))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, "bias",
                     "the bias must be of type %s and have the shape %" PRIu64 ",%" PRIu64
                     ": a number for each expert and column of W",
                     dtype_name(request->out), request->count, experts_request_columns(request));
}

static enum gemmd_error settle_arrays(struct experts_request *request,
                                      struct experts_operands *operands, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    if (operand_is_there(&operands->a))
        code = settle_a(request, &operands->a, "A", fault);
    if (code == GEMMD_OK && operand_is_there(&operands->w))
        code = settle_w(request, &operands->w, "W", fault);
    if (code == GEMMD_OK)
        code = settle_places(request, &operands->experts, GEMMD_I32, "experts",
                             experts_operand_table.operands[EXPERTS].title, fault);
    if (code == GEMMD_OK)
        code = settle_places(request, &operands->weights, GEMMD_F32, "weights",
                             experts_operand_table.operands[WEIGHTS].title, fault);
    if (code == GEMMD_OK)
        code = settle(request, fault);
    return code == GEMMD_OK ? check_bias(request, &operands->bias, fault) : code;
}

enum gemmd_error experts_request_bind_tensors(struct experts_request *request,
                                              struct experts_operands *operands,
                                              struct fault *fault)
{
    if (!experts_given(request, "weights"))
        request->weights = operand_is_there(&operands->weights);
    if (!experts_given(request, "bias"))
        request->bias = operand_is_there(&operands->bias);
    const enum gemmd_error code =
        operand_check_named(&experts_operand_table, request, operands->all, fault);
    return code == GEMMD_OK ? settle_arrays(request, operands, fault) : code;
}

enum gemmd_error experts_request_bind_front(struct experts_request *request, enum format format,
                                            struct body_front *front,
                                            struct experts_operands *operands, struct fault *fault)
{
    const enum gemmd_dtype carrier =
        experts_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    const enum gemmd_error code =
        operand_bind_front(&experts_operand_table, request, request->elsewhere, format, front,
                           carrier, operands->all, fault);
    if (code != GEMMD_OK || format == FORMAT_RAW)
        return code;
    return format == FORMAT_SAFETENSORS ? experts_request_bind_tensors(request, operands, fault)
                                        : settle_arrays(request, operands, fault);
}

enum gemmd_error experts_request_check_numbers(const struct experts_request *request,
                                               const struct experts_operands *operands,
                                               struct fault *fault)
{
    const uint64_t places = operands->experts.bytes / sizeof(int32_t);
    for (uint64_t i = 0; i < places; i++) {
        int32_t value;
        memcpy(&value, (const char *)operands->experts.data + i * sizeof value, sizeof value);
        if (value < -1 || (value >= 0 && (uint64_t)value >= request->count))
            return fault_set(fault, GEMMD_ERR_MALFORMED, "experts",
                             "row %" PRIu64 " has expert %" PRId32 " at place %" PRIu64
                             "; W has the experts 0 to %" PRIu64
                             ", and -1 is a place that computes nothing",
                             i / request->topk, value, i % request->topk, request->count - 1);
    }
    return GEMMD_OK;
}
