/* POST /reduce, /softmax, /conv2d and /experts: a query, a line feed, and a body of any format.
 * What is accepted has a shape, a result and operands inside the body. A query that names a
 * resident tensor finds one, whose type and shape follow from the name. */
#include <string.h>

#include "fuzz.h"
#include "proto/conv2d_request.h"
#include "proto/experts_request.h"
#include "proto/parameter.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

static void take_query(const struct parameter_table *table, void *request, const char *query)
{
    char *text = strdup(query), *rest = text;
    struct fault fault;
    MUST(text != NULL);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        const char *name = strsep(&pair, "=");
        if (parameter_set(table, request, name, pair, &fault) != GEMMD_OK)
            MUST(fault.detail[0] != '\0');
    }
    free(text);
}

/* Returns `tensor`, with the type and shape of the resident tensor of that name, or NULL if the
 * name is empty. The tensor has no data. */
static const struct tensor *resident_of(const char *name, struct tensor *tensor)
{
    uint64_t dims[TENSOR_MAX_RANK];
    uint32_t hash = 2166136261; /* FNV-1a */
    if (name[0] == '\0')
        return NULL;
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619;
    const uint32_t rank = hash % 5 != 0 ? 1 + hash % 5 : TENSOR_MAX_RANK;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = 1 + (hash >> (3 * i)) % 8;
    MUST(tensor_init(tensor, (enum gemmd_dtype)((hash >> 24) % GEMMD_DTYPE_COUNT), dims, rank,
                     NULL));
    return tensor;
}

static void check_inside(const struct tensor *tensor, const uint8_t *body, size_t length)
{
    const uint8_t *data = tensor->data;
    if (tensor->rank > 0 && data != NULL)
        MUST(data >= body && tensor->bytes <= (size_t)(body + length - data));
}

static void fuzz_reduce(const char *query, enum format format, const uint8_t *body, size_t length)
{
    struct body_front front = {.bytes = body, .length = length, .received = length};
    struct reduce_request request;
    struct reduce_operands operands;
    struct tensor x, y;
    reduce_request_init(&request);
    take_query(&reduce_parameter_table, &request, query);
    if (reduce_request_settle_resident(&request, resident_of(request.x, &x), NULL) != GEMMD_OK ||
        reduce_request_check(&request, format, NULL) != GEMMD_OK ||
        reduce_request_bind_front(&request, format, &front, &operands, NULL) != GEMMD_OK)
        return;
    check_inside(&operands.x, body, length);
    MUST(request.shape.rank >= 1 && reduce_request_axis(&request) < request.shape.rank);
    MUST(reduce_request_result(&request, &y) && y.rank >= 1);
    MUST(reduce_offers(request.op, request.dtype, y.dtype));
}

static void fuzz_softmax(const char *query, enum format format, const uint8_t *body, size_t length)
{
    struct body_front front = {.bytes = body, .length = length, .received = length};
    struct softmax_request request;
    struct softmax_operands operands;
    struct tensor x, y;
    softmax_request_init(&request);
    take_query(&softmax_parameter_table, &request, query);
    if (softmax_request_settle_resident(&request, resident_of(request.x, &x), NULL) != GEMMD_OK ||
        softmax_request_check(&request, format, NULL) != GEMMD_OK ||
        softmax_request_bind_front(&request, format, &front, &operands, NULL) != GEMMD_OK)
        return;
    check_inside(&operands.x, body, length);
    check_inside(&operands.lens, body, length);
    MUST(request.lens < request.shape.rank && softmax_request_result(&request, &y));
    (void)softmax_request_check_lens(&request, &operands, NULL);
}

/* Each output element lies above some element of the padded input. */
static void check_conv_shape(const struct conv_shape *shape)
{
    const struct conv_shape *s = shape;
    MUST(s->batch >= 1 && s->groups >= 1 && s->out_height >= 1 && s->out_width >= 1);
    MUST(s->channels % s->groups == 0 && s->filters % s->groups == 0);
    MUST((s->out_height - 1) * s->stride_h + (s->r - 1) * s->dilation_h <
         s->height + s->pad_top + s->pad_bottom);
    MUST((s->out_width - 1) * s->stride_w + (s->s - 1) * s->dilation_w <
         s->width + s->pad_left + s->pad_right);
    MUST(s->out_height * s->out_width <= CONV_PLANE_MAX);
}

static void fuzz_conv2d(const char *query, enum format format, const uint8_t *body, size_t length)
{
    struct conv2d_request request;
    struct conv2d_operands operands;
    struct conv_shape shape;
    struct tensor x, w, y;
    struct fault fault = {.code = GEMMD_OK};
    conv2d_request_init(&request);
    take_query(&conv2d_parameter_table, &request, query);
    enum gemmd_error code = conv2d_request_settle_residents(&request, resident_of(request.x, &x),
                                                            resident_of(request.w, &w), &fault);
    if (code == GEMMD_OK)
        code = conv2d_request_check(&request, format, &fault);
    if (code == GEMMD_OK)
        code = conv2d_request_bind(&request, format, body, length, &operands, &fault);
    MUST(code == GEMMD_OK || (fault.code == code && fault.detail[0] != '\0'));
    if (code != GEMMD_OK)
        return;
    for (int i = 0; i < CONV2D_OPERANDS; i++)
        check_inside(&operands.all[i], body, length);
    MUST((operands.bias.rank == 1) == request.bias);
    MUST((operands.w.rank == 4) == (request.w[0] == '\0') && operands.x.rank == 4);
    MUST(conv2d_request_shape(&request, &shape, &fault) == GEMMD_OK);
    check_conv_shape(&shape);
    if (conv2d_request_result(&request, &y))
        MUST(y.rank == 4 && y.dims[0] == shape.batch && y.dtype == request.out);
}

static void fuzz_experts(const char *query, enum format format, const uint8_t *body, size_t length)
{
    struct body_front front = {.bytes = body, .length = length, .received = length};
    struct experts_request request;
    struct experts_operands operands;
    struct tensor a, w, c;
    struct fault fault = {.code = GEMMD_OK};
    experts_request_init(&request);
    take_query(&experts_parameter_table, &request, query);
    enum gemmd_error code = experts_request_settle_residents(&request, resident_of(request.a, &a),
                                                             resident_of(request.w, &w), &fault);
    if (code == GEMMD_OK)
        code = experts_request_check(&request, format, &fault);
    if (code == GEMMD_OK)
        code = experts_request_bind_front(&request, format, &front, &operands, &fault);
    MUST(code == GEMMD_OK || (fault.code == code && fault.detail[0] != '\0'));
    if (code != GEMMD_OK)
        return;
    for (int i = 0; i < EXPERTS_OPERANDS; i++)
        check_inside(&operands.all[i], body, length);
    MUST(operands.experts.bytes == request.m * request.topk * sizeof(int32_t));
    MUST((operands.weights.rank > 0) == request.weights &&
         (operands.bias.rank > 0) == request.bias);
    MUST(experts_offers(request.dtype, request.out) && experts_request_result(&request, &c));
    (void)experts_request_check_numbers(&request, &operands, &fault);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const uint8_t *end = memchr(bytes, '\n', length);
    const size_t query_length = end != NULL ? (size_t)(end - bytes) : length;
    const size_t skipped = end != NULL ? query_length + 1 : length;
    char *query = malloc(query_length + 1);
    MUST(query != NULL);
    memcpy(query, bytes, query_length);
    query[query_length] = '\0';
    for (int format = FORMAT_RAW; format <= FORMAT_SAFETENSORS; format++) {
        fuzz_reduce(query, (enum format)format, bytes + skipped, length - skipped);
        fuzz_softmax(query, (enum format)format, bytes + skipped, length - skipped);
        fuzz_conv2d(query, (enum format)format, bytes + skipped, length - skipped);
        fuzz_experts(query, (enum format)format, bytes + skipped, length - skipped);
    }
    free(query);
    return 0;
}
