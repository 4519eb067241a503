#include "proto/attention_request.h"

#include <float.h>
#include <inttypes.h>
#include <stddef.h>

#include "proto/dtype.h"
#include "proto/parameter.h"
#include "proto/size.h"

/* The parsers of parameters that only an attention has. */

/* Scores are divided by the softcap in f32, in which the softcap has to be a normal number or 0. */
static bool read_softcap(const char *value, void *out)
{
    double number;
    if (!parameter_f32.read(value, &number) || number < 0 || (number > 0 && number < FLT_MIN))
        return false;
    *(double *)out = number;
    return true;
}

static const struct parameter_values layout_values = {
    .choices = (const char *const[]){"bhsd", "bshd", NULL}};
static const struct parameter_values lens_values = {
    .choices = (const char *const[]){"0", "1", "ragged", NULL}};
static const struct parameter_values mask_values = {
    .choices = (const char *const[]){"none", "add", "bool", NULL}};
static const struct parameter_values dtype_values = {
    .dtypes = DTYPE_BIT(F32) | DTYPE_BIT(F16) | DTYPE_BIT(BF16) | DTYPE_BIT(F8_E4M3)};
static const struct parameter_values softcap_values = {
    .read = read_softcap,
    .allowed = "0 for none or a positive decimal that f32 can hold, such as 30"};

static const struct parameter parameters[] = {
#define P(name, values) PARAMETER(attention_request, name, values)
    P(batch, parameter_dim),      P(heads, parameter_dim),
    P(kv_heads, parameter_dim),   P(sq, parameter_dim),
    P(skv, parameter_dim),        P(d, parameter_dim),
    P(dv, parameter_dim),         P(layout, layout_values),
    P(dtype, dtype_values),       P(causal, parameter_flag),
    P(window, parameter_count),   P(scale, parameter_f32),
    P(softcap, softcap_values),   P(lens, lens_values),
    P(k, parameter_tensor),       P(v, parameter_tensor),
    P(lse, parameter_flag),       P(kernel, parameter_kernel),
    P(timeout_ms, parameter_dim), P(priority, parameter_priority),
    P(mask, mask_values),         P(mask_batch, parameter_dim),
    P(mask_heads, parameter_dim), P(mask_sq, parameter_dim),
    P(offset, parameter_count),   P(sequence, parameter_tensor),
    P(append, parameter_flag),    P(position, parameter_count),
    P(layer, parameter_count),    P(window_right, parameter_count),
    P(alibi, parameter_flag),     P(sinks, parameter_flag),
#undef P
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

/* Checks that a size of the mask is 1 or the size of the attention, and sets a size that is not
 * known to `usual`. */
static enum gemmd_error settle_mask_size(const char *name, uint64_t *size, uint64_t usual,
                                         const char *full_name, uint64_t full, struct fault *fault)
{
    *size = *size == 0 ? usual : *size;
    if (*size == 1 || *size == full)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, name,
                     "%s is %" PRIu64 "; it must be 1 or %s=%" PRIu64, name, *size, full_name,
                     full);
}

static enum gemmd_error settle_mask_sizes(struct attention_request *r, struct fault *fault)
{
    static const char *const names[] = {"mask_batch", "mask_heads", "mask_sq"};
    for (uint32_t i = 0; r->mask == ATTENTION_MASK_NONE && i < 3; i++)
        if (attention_request_given(r, names[i]))
            return fault_set(fault, GEMMD_ERR_MALFORMED, names[i],
                             "%s is given, and the request has no mask", names[i]);
    enum gemmd_error code =
        settle_mask_size("mask_batch", &r->mask_batch, 1, "batch", r->batch, fault);
    if (code == GEMMD_OK)
        code = settle_mask_size("mask_heads", &r->mask_heads, 1, "heads", r->heads, fault);
    return code == GEMMD_OK ? settle_mask_size("mask_sq", &r->mask_sq, r->sq, "sq", r->sq, fault)
                            : code;
}

/* Sets skv of a request that appends: the queries are the last positions. A mask may have given
 * skv.
 */
static enum gemmd_error settle_appended(struct attention_request *r, struct fault *fault)
{
    const uint64_t length = r->position + r->sq;
    if (length > GEMM_DIM_MAX)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, "position",
                         "the sequence would have %" PRIu64 " positions; it can have %d", length,
                         GEMM_DIM_MAX);
    if (r->skv != 0 && r->skv != length)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "skv",
                         "the mask has %" PRIu64 " keys; the sequence has %" PRIu64
                         " after the append",
                         r->skv, length);
    r->skv = length;
    return GEMMD_OK;
}

enum gemmd_error attention_request_settle_sizes(struct attention_request *request,
                                                struct fault *fault)
{
    struct attention_request *r = request;
    r->batch = r->batch == 0 ? 1 : r->batch;
    r->kv_heads = r->kv_heads == 0 ? r->heads : r->kv_heads;
    const enum gemmd_error code = r->append ? settle_appended(r, fault) : GEMMD_OK;
    if (code != GEMMD_OK)
        return code;
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
    if (r->lens == ATTENTION_LENS_RAGGED && r->mask != ATTENTION_MASK_NONE)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "mask",
                         "a mask is given with lens=ragged; ragged entries have no mask");
    return settle_mask_sizes(r, fault);
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
    const uint64_t dims[] = {attention_request_entries_apart(request), heads_first ? heads : length,
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
    const uint64_t dims[] = {attention_request_entries_apart(request), request->heads, request->sq};
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
