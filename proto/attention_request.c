#include "proto/attention_request.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/parameter.h"
#include "proto/size.h"

static const char *const layout_names[] = {"bhsd", "bshd", NULL};

/* The parsers of parameters that only an attention has. */

static bool is_offered(enum gemmd_dtype dtype)
{
    return dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16 ||
           dtype == GEMMD_F8_E4M3;
}

static bool read_dtype(const char *value, void *out)
{
    enum gemmd_dtype dtype;
    if (!dtype_from_name(value, &dtype) || !is_offered(dtype))
        return false;
    *(enum gemmd_dtype *)out = dtype;
    return true;
}

static bool read_window(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number > GEMM_DIM_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

/* The scale has to be finite as an f32, the type of the scores. */
static bool read_scale(const char *value, void *out)
{
    double number;
    if (!number_f64(value, &number) || fabs(number) > FLT_MAX)
        return false;
    *(double *)out = number;
    return true;
}

/* Scores are divided by the softcap in f32, in which the softcap has to be a normal number or 0. */
static bool read_softcap(const char *value, void *out)
{
    double number;
    if (!read_scale(value, &number) || number < 0 || (number > 0 && number < FLT_MIN))
        return false;
    *(double *)out = number;
    return true;
}

static const struct parameter parameters[] = {
#define P(name, read, allowed, suggest)                                                            \
    {                                                                                              \
#name, read, offsetof(struct attention_request, name), allowed, NULL, suggest              \
    }
#define C(name, choices, allowed)                                                                  \
    {                                                                                              \
#name, NULL, offsetof(struct attention_request, name), allowed, choices, NULL              \
    }
    P(batch, parameter_read_dim, PARAMETER_DIM, NULL),
    P(heads, parameter_read_dim, PARAMETER_DIM, NULL),
    P(kv_heads, parameter_read_dim, PARAMETER_DIM, NULL),
    P(sq, parameter_read_dim, PARAMETER_DIM, NULL),
    P(skv, parameter_read_dim, PARAMETER_DIM, NULL),
    P(d, parameter_read_dim, PARAMETER_DIM, NULL),
    P(dv, parameter_read_dim, PARAMETER_DIM, NULL),
    C(layout, layout_names, "one of bhsd, bshd"),
    P(dtype, read_dtype, "one of f32, f16, bf16, f8_e4m3", dtype_suggest),
    P(causal, parameter_read_flag, PARAMETER_FLAG, parameter_suggest_flag),
    P(window, read_window, "a whole number from 0 to 2147483647", NULL),
    P(scale, read_scale, "a decimal that f32 can hold, such as 0.125", NULL),
    P(softcap, read_softcap, "0 for none or a positive decimal that f32 can hold, such as 30",
      NULL),
    P(lens, parameter_read_flag, PARAMETER_FLAG, parameter_suggest_flag),
    P(k, parameter_read_tensor, PARAMETER_TENSOR, NULL),
    P(v, parameter_read_tensor, PARAMETER_TENSOR, NULL),
    P(lse, parameter_read_flag, PARAMETER_FLAG, parameter_suggest_flag),
    P(kernel, parameter_read_kernel, PARAMETER_KERNEL, NULL),
    P(timeout_ms, parameter_read_dim, PARAMETER_DIM, NULL),
    P(priority, parameter_read_priority, PARAMETER_PRIORITY, NULL),
#undef P
#undef C
};

enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };
_Static_assert(PARAMETER_COUNT <= 32, "`given` has a bit for each parameter");

const struct parameter_table attention_parameter_table = {
    "/attention", parameters, PARAMETER_COUNT, offsetof(struct attention_request, given)};

void attention_request_init(struct attention_request *request)
{
    *request = (struct attention_request){
        .dtype = GEMMD_F16,
        .kernel = "auto",
        .priority = GEMM_PRIORITY_DEFAULT,
        .rank = 4,
    };
}

enum gemmd_error attention_request_set(struct attention_request *request, const char *name,
                                       const char *value, struct fault *fault)
{
    return parameter_set(&attention_parameter_table, request, name, value, fault);
}

bool attention_request_given(const struct attention_request *request, const char *name)
{
    return parameter_given(&attention_parameter_table, request, name);
}

void attention_request_mark_given(struct attention_request *request, const char *name)
{
    parameter_mark_given(&attention_parameter_table, request, name);
}

enum gemmd_error attention_request_settle_sizes(struct attention_request *request,
                                                struct fault *fault)
{
    struct attention_request *r = request;
    r->batch = r->batch == 0 ? 1 : r->batch;
    r->kv_heads = r->kv_heads == 0 ? r->heads : r->kv_heads;
    r->skv = r->skv == 0 ? r->sq : r->skv;
    r->dv = r->dv == 0 ? r->d : r->dv;
    if (r->heads % r->kv_heads != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "kv_heads",
                         "heads is %" PRIu64 " and kv_heads %" PRIu64
                         "; heads must be a multiple of kv_heads",
                         r->heads, r->kv_heads);
    const bool wide = r->d > ATTENTION_WIDTH_MAX;
    if (wide || r->dv > ATTENTION_WIDTH_MAX)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, wide ? "d" : "dv",
                         "%s is %" PRIu64 "; heads of 1 to %d are offered", wide ? "d" : "dv",
                         wide ? r->d : r->dv, ATTENTION_WIDTH_MAX);
    return GEMMD_OK;
}

enum gemmd_error attention_request_check(struct attention_request *request, enum format format,
                                         struct fault *fault)
{
    if (format != FORMAT_RAW)
        return GEMMD_OK; /* the arrays of the body give the sizes */
    const char *missing = request->heads == 0 ? "heads"
                          : request->sq == 0  ? "sq"
                          : request->d == 0   ? "d"
                                              : NULL;
    if (missing != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, missing,
                         "%s is missing; raw bodies need heads, sq and d, each " PARAMETER_DIM
                             PARAMETER_OR_FORMAT,
                         missing);
    return attention_request_settle_sizes(request, fault);
}

bool attention_request_tensor(const struct attention_request *request, uint64_t heads,
                              uint64_t length, uint64_t width, struct tensor *tensor)
{
    const bool heads_first = request->layout == ATTENTION_BHSD;
    const uint64_t dims[] = {request->batch, heads_first ? heads : length,
                             heads_first ? length : heads, width};
    return tensor_init(tensor, request->dtype, dims, 4, NULL);
}

/* Removes leading dimensions, so that `tensor` has the given rank. */
static void drop_leading_dims(struct tensor *tensor, uint32_t rank)
{
    const uint32_t skip = tensor->rank - rank;
    for (uint32_t i = 0; i < rank; i++)
        tensor->dims[i] = tensor->dims[i + skip];
    tensor->rank = rank;
}

bool attention_request_result(const struct attention_request *request, struct tensor *o,
                              struct tensor *lse)
{
    const uint64_t dims[] = {request->batch, request->heads, request->sq};
    struct attention_request shape = *request;
    if (shape.rank == 2) /* a Q of rank 2 is [sq, d], without a dimension for the one head */
        shape.layout = ATTENTION_BHSD;
    if (!attention_request_tensor(&shape, shape.heads, shape.sq, shape.dv, o) ||
        !tensor_init(lse, GEMMD_F32, dims, 3, NULL))
        return false;
    drop_leading_dims(o, request->rank);
    drop_leading_dims(lse, request->rank - 1);
    return true;
}
