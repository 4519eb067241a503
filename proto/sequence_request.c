#include "proto/sequence_request.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/parameter.h"

/* ---- PUT ---- */

static const struct parameter_values dtype_values = {.dtypes = DTYPE_BIT(F32) | DTYPE_BIT(F16) |
                                                               DTYPE_BIT(BF16)};
static const struct parameter_values layout_values = {
    .choices = (const char *const[]){"bhsd", "bshd", NULL}};

static bool read_layers(const char *value, void *out)
{
    uint64_t number;
    if (!number_u64(value, &number) || number < 1 || number > SEQUENCE_LAYERS_MAX)
        return false;
    *(uint64_t *)out = number;
    return true;
}

static const struct parameter_values layers_values = {.read = read_layers,
                                                      .allowed = "a whole number from 1 to 256"};

static const struct parameter put_parameters[] = {
#define P(name, values) PARAMETER(sequence_put_request, name, values)
    P(kv_heads, parameter_dim), P(d, parameter_dim),      P(dv, parameter_dim),
    P(dtype, dtype_values),     P(layers, layers_values), P(fork, parameter_tensor),
    P(length, parameter_count),
#undef P
};

const struct parameter_table sequence_put_table = {"PUT of a sequence", put_parameters,
                                                   sizeof put_parameters / sizeof put_parameters[0],
                                                   offsetof(struct sequence_put_request, given)};

void sequence_put_init(struct sequence_put_request *request)
{
    *request = (struct sequence_put_request){.dtype = GEMMD_F16, .layers = 1};
}

bool sequence_put_given(const struct sequence_put_request *request, const char *name)
{
    return parameter_given(&sequence_put_table, request, name);
}

/* A fork has the shape of its origin. */
static enum gemmd_error check_fork(const struct sequence_put_request *request, struct fault *fault)
{
    static const char *const shape[] = {"kv_heads", "d", "dv", "dtype", "layers"};
    for (uint32_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        if (sequence_put_given(request, shape[i]))
            return fault_set(fault, GEMMD_ERR_MALFORMED, shape[i],
                             "%s is given with fork; a fork has the shape of the sequence that it "
                             "is made of",
                             shape[i]);
    return GEMMD_OK;
}

enum gemmd_error sequence_put_check(struct sequence_put_request *request, struct fault *fault)
{
    if (request->fork[0] != '\0')
        return check_fork(request, fault);
    if (sequence_put_given(request, "length"))
        return fault_set(fault, GEMMD_ERR_MALFORMED, "length",
                         "length is given without fork; a new sequence is empty");
    const char *missing = request->kv_heads == 0 ? "kv_heads" : request->d == 0 ? "d" : NULL;
    if (missing != NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, missing,
                         "%s is missing; a new sequence needs kv_heads and d, each " PARAMETER_DIM,
                         missing);
    request->dv = request->dv == 0 ? request->d : request->dv;
    const bool wide = request->d > ATTENTION_WIDTH_MAX;
    if (wide || request->dv > ATTENTION_WIDTH_MAX)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, wide ? "d" : "dv",
                         "%s is %" PRIu64 "; heads of 1 to %d are offered", wide ? "d" : "dv",
                         wide ? request->d : request->dv, ATTENTION_WIDTH_MAX);
    return GEMMD_OK;
}

/* ---- append and kv ---- */

static const struct parameter append_parameters[] = {
#define P(name, values) PARAMETER(sequence_rows_request, name, values)
    P(layer, parameter_count),
    P(position, parameter_count),
    P(layout, layout_values),
};
static const struct parameter kv_parameters[] = {
    P(layer, parameter_count),
    P(position, parameter_count),
    P(layout, layout_values),
    P(count, parameter_dim),
#undef P
};

const struct parameter_table sequence_append_table = {
    "append to a sequence", append_parameters,
    sizeof append_parameters / sizeof append_parameters[0],
    offsetof(struct sequence_rows_request, given)};
const struct parameter_table sequence_kv_table = {"GET of keys and values", kv_parameters,
                                                  sizeof kv_parameters / sizeof kv_parameters[0],
                                                  offsetof(struct sequence_rows_request, given)};

bool sequence_append_given(const struct sequence_rows_request *request, const char *name)
{
    return parameter_given(&sequence_append_table, request, name);
}

bool sequence_kv_given(const struct sequence_rows_request *request, const char *name)
{
    return parameter_given(&sequence_kv_table, request, name);
}

enum { K, V };

static bool is_wanted(const void *request, uint32_t operand)
{
    (void)request;
    (void)operand;
    return true;
}

static bool shape_of(const void *of, uint32_t operand, struct tensor *tensor)
{
    const struct sequence_rows_request *r = of;
    const bool heads_first = r->layout == ATTENTION_BHSD;
    const uint64_t dims[] = {heads_first ? r->kv_heads : r->count,
                             heads_first ? r->count : r->kv_heads, operand == K ? r->d : r->dv};
    return tensor_init(tensor, r->dtype, dims, 3, NULL);
}

static void describe(const void *of, char *out, size_t room)
{
    const struct sequence_rows_request *r = of;
    snprintf(out, room,
             "%" PRIu64 " positions of kv_heads=%" PRIu64 " d=%" PRIu64 " dv=%" PRIu64 " in %s",
             r->count, r->kv_heads, r->d, r->dv, dtype_name(r->dtype));
}

static void guess(const void *of, uint32_t elsewhere, uint64_t bytes, struct operand_guess *out)
{
    (void)of;
    (void)elsewhere;
    (void)bytes;
    (void)out;
}

const struct operand_table sequence_rows_table = {
    .path = "append",
    .names = "k, v",
    .npy_scalar = ": the array is a scalar",
    .named_scalar = " is a scalar",
    .npy_more = "",
    .count = 2,
    .operands = {{"k", "K", NULL, "k"}, {"v", "V", NULL, "v"}},
    .is_wanted = is_wanted,
    .shape = shape_of,
    .describe = describe,
    .guess = guess,
};

bool sequence_rows_shapes(const struct sequence_rows_request *request, struct tensor *k,
                          struct tensor *v)
{
    return shape_of(request, K, k) && shape_of(request, V, v);
}

/* Compares an array with the sequence. Leading dimensions of 1 may be left out, or there. The first
 * array determines the number of positions. */
static enum gemmd_error check_array(struct sequence_rows_request *r, uint32_t operand,
                                    struct tensor *array, struct fault *fault)
{
    const char *title = sequence_rows_table.operands[operand].title;
    uint64_t dims[3] = {1, 1, 1};
    char shape[TENSOR_MAX_RANK * 21];
    struct tensor expected;
    if (array->dtype != r->dtype)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "dtype",
                         "%s is of type %s; the sequence is of type %s", title,
                         dtype_name(array->dtype), dtype_name(r->dtype));
    tensor_shape_text(array, shape, sizeof shape);
    const uint32_t extra = array->rank == 4 && array->dims[0] == 1;
    if (array->rank - extra < 2 || array->rank - extra > 3)
        return fault_set(fault, GEMMD_ERR_MALFORMED, sequence_rows_table.operands[operand].field,
                         "%s has the shape %s; it must be %s", title, shape,
                         r->layout == ATTENTION_BHSD ? "kv_heads, positions, head size"
                                                     : "positions, kv_heads, head size");
    const uint32_t missing = 3 - (array->rank - extra);
    for (uint32_t i = missing; i < 3; i++)
        dims[i] = array->dims[i - missing + extra];
    /* An array of two dimensions is of one head in both layouts. */
    const bool heads_first = r->layout == ATTENTION_BHSD || missing == 1;
    const uint64_t heads = dims[heads_first ? 0 : 1], count = dims[heads_first ? 1 : 0];
    if (operand == K)
        r->count = count;
    if (heads != r->kv_heads || count != r->count || dims[2] != (operand == K ? r->d : r->dv) ||
        count < 1 || count > GEMM_DIM_MAX || !shape_of(r, operand, &expected))
        return fault_set(fault, GEMMD_ERR_MALFORMED, sequence_rows_table.operands[operand].field,
                         "%s has the shape %s; the sequence has kv_heads=%" PRIu64 " d=%" PRIu64
                         " dv=%" PRIu64 ", and K and V must have as many positions",
                         title, shape, r->kv_heads, r->d, r->dv);
    return GEMMD_OK;
}

enum gemmd_error sequence_rows_check(struct sequence_rows_request *request, struct tensor arrays[2],
                                     struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < 2 && code == GEMMD_OK; i++)
        code = check_array(request, i, &arrays[i], fault);
    return code;
}

/* Derives the number of positions from the length of a raw body. */
static enum gemmd_error count_raw(struct sequence_rows_request *r, uint64_t bytes,
                                  struct fault *fault)
{
    const uint64_t each = r->kv_heads * (r->d + r->dv) * dtype_size(r->dtype);
    r->count = bytes / each;
    if (bytes > 0 && bytes % each == 0 && r->count <= GEMM_DIM_MAX)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the body is %" PRIu64 " bytes; a position of kv_heads=%" PRIu64 " d=%" PRIu64
                     " dv=%" PRIu64 " in %s takes %" PRIu64
                     ", and the body needs one or more" PARAMETER_OR_FORMAT,
                     bytes, r->kv_heads, r->d, r->dv, dtype_name(r->dtype), each);
}

enum gemmd_error sequence_rows_bind(struct sequence_rows_request *request, enum format format,
                                    const void *body, uint64_t bytes, struct tensor *k,
                                    struct tensor *v, struct fault *fault)
{
    static const unsigned char nothing;
    struct body_front front = {
        .bytes = body != NULL ? body : &nothing, .length = bytes, .received = bytes};
    struct tensor found[2] = {{.rank = 0}, {.rank = 0}};
    enum gemmd_error code = GEMMD_OK;
    if (format == FORMAT_RAW)
        code = count_raw(request, bytes, fault);
    if (code == GEMMD_OK)
        code = operand_bind_front(&sequence_rows_table, request, 0, format, &front, request->dtype,
                                  found, fault);
    if (code == GEMMD_OK && format == FORMAT_SAFETENSORS)
        code = operand_check_named(&sequence_rows_table, request, found, fault);
    if (code == GEMMD_OK && format != FORMAT_RAW)
        code = sequence_rows_check(request, found, fault);
    *k = found[K];
    *v = found[V];
    return code;
}

/* ---- truncate ---- */

static const struct parameter truncate_parameters[] = {
    PARAMETER(sequence_truncate_request, length, parameter_count),
};
const struct parameter_table sequence_truncate_table = {
    "truncate of a sequence", truncate_parameters, 1,
    offsetof(struct sequence_truncate_request, given)};

bool sequence_truncate_given(const struct sequence_truncate_request *request, const char *name)
{
    return parameter_given(&sequence_truncate_table, request, name);
}
