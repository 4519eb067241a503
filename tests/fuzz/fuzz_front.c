/* Bodies of which only the front has been received: a byte that chooses the operation and the
 * format, a query, a line end, and the body. What is bound early is what is bound in the end. */
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "proto/attention_request.h"
#include "proto/conv2d_request.h"
#include "proto/experts_request.h"
#include "proto/gemm_request.h"
#include "proto/reduce_request.h"
#include "proto/softmax_request.h"

struct arrival {
    uint8_t *bytes; /* memory for the whole body, of which `front.received` bytes are there */
    const uint8_t *body;
    struct body_front front;
};

/* Lets the body arrive as far as is wanted. A header that announces more than the body has wants
 * more than will come. */
static void arrive(struct arrival *arrival)
{
    struct body_front *front = &arrival->front;
    MUST(front->received < front->length && front->wanted > front->received);
    front->received = front->wanted < front->length ? front->wanted : front->length;
    memcpy(arrival->bytes, arrival->body, front->received);
}

static void check_same(const struct tensor *early, const uint8_t *arrived,
                       const struct tensor *late, const uint8_t *body)
{
    MUST(early->rank == late->rank);
    if (late->rank == 0)
        return;
    MUST(early->dtype == late->dtype && early->bytes == late->bytes);
    MUST(memcmp(early->dims, late->dims, late->rank * sizeof late->dims[0]) == 0);
    if (early->data != NULL)
        MUST((const uint8_t *)early->data - arrived == (const uint8_t *)late->data - body);
}

static void check_gemm(struct gemm_request request, enum format format, struct arrival *arrival)
{
    struct gemm_request late_request = request;
    struct gemm_operands early, late;
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code;
    if (gemm_request_check(&request, format, NULL) != GEMMD_OK)
        return;
    late_request = request;
    for (;;) {
        struct gemm_request attempt = request;
        code = gemm_request_bind_front(&attempt, format, &arrival->front, &early, &fault);
        if (code != GEMMD_ERR_CONFLICT)
            break;
        arrive(arrival);
    }
    const enum gemmd_error in_the_end = gemm_request_bind(&late_request, format, arrival->body,
                                                          arrival->front.length, &late, &fault);
    MUST(in_the_end != GEMMD_ERR_CONFLICT);
    MUST(code == GEMMD_OK || in_the_end != GEMMD_OK);
    if (in_the_end != GEMMD_OK)
        return;
    check_same(&early.a, arrival->bytes, &late.a, arrival->body);
    check_same(&early.b, arrival->bytes, &late.b, arrival->body);
    check_same(&early.c0, arrival->bytes, &late.c0, arrival->body);
}

static void check_attention(struct attention_request request, enum format format,
                            struct arrival *arrival)
{
    struct attention_request late_request = request;
    struct attention_operands early, late;
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code;
    if (attention_request_check(&request, format, NULL) != GEMMD_OK)
        return;
    late_request = request;
    for (;;) {
        struct attention_request attempt = request;
        code = attention_request_bind_front(&attempt, format, &arrival->front, &early, &fault);
        if (code != GEMMD_ERR_CONFLICT)
            break;
        arrive(arrival);
    }
    const enum gemmd_error in_the_end = attention_request_bind(
        &late_request, format, arrival->body, arrival->front.length, &late, &fault);
    MUST(in_the_end != GEMMD_ERR_CONFLICT);
    MUST(code == GEMMD_OK || in_the_end != GEMMD_OK);
    if (in_the_end != GEMMD_OK)
        return;
    for (int i = 0; i < ATTENTION_OPERANDS; i++)
        check_same(&early.all[i], arrival->bytes, &late.all[i], arrival->body);
}

/* A request of one of the other operations, with its operands in the order of their table. */
union any_array_request {
    struct reduce_request reduce;
    struct softmax_request softmax;
    struct conv2d_request conv2d;
    struct experts_request experts;
};
struct array_operation {
    const struct parameter_table *parameters;
    uint32_t operands;
    void (*init)(union any_array_request *request);
    enum gemmd_error (*check)(union any_array_request *request, enum format format);
    enum gemmd_error (*bind)(union any_array_request *request, enum format format,
                             struct body_front *front, struct tensor *operands);
};

static void init_reduce(union any_array_request *request)
{
    reduce_request_init(&request->reduce);
}

static enum gemmd_error check_reduce(union any_array_request *request, enum format format)
{
    return reduce_request_check(&request->reduce, format, NULL);
}

static enum gemmd_error bind_reduce(union any_array_request *request, enum format format,
                                    struct body_front *front, struct tensor *operands)
{
    struct reduce_operands bound = {.x = {.rank = 0}};
    const enum gemmd_error code =
        reduce_request_bind_front(&request->reduce, format, front, &bound, NULL);
    memcpy(operands, bound.all, sizeof bound.all);
    return code;
}

static void init_softmax(union any_array_request *request)
{
    softmax_request_init(&request->softmax);
}

static enum gemmd_error check_softmax(union any_array_request *request, enum format format)
{
    return softmax_request_check(&request->softmax, format, NULL);
}

static enum gemmd_error bind_softmax(union any_array_request *request, enum format format,
                                     struct body_front *front, struct tensor *operands)
{
    struct softmax_operands bound = {.x = {.rank = 0}};
    const enum gemmd_error code =
        softmax_request_bind_front(&request->softmax, format, front, &bound, NULL);
    memcpy(operands, bound.all, sizeof bound.all);
    return code;
}

static void init_conv2d(union any_array_request *request)
{
    conv2d_request_init(&request->conv2d);
}

static enum gemmd_error check_conv2d(union any_array_request *request, enum format format)
{
    return conv2d_request_check(&request->conv2d, format, NULL);
}

static enum gemmd_error bind_conv2d(union any_array_request *request, enum format format,
                                    struct body_front *front, struct tensor *operands)
{
    struct conv2d_operands bound;
    const enum gemmd_error code =
        conv2d_request_bind_front(&request->conv2d, format, front, &bound, NULL);
    memcpy(operands, bound.all, sizeof bound.all);
    return code;
}

static void init_experts(union any_array_request *request)
{
    experts_request_init(&request->experts);
}

static enum gemmd_error check_experts(union any_array_request *request, enum format format)
{
    return experts_request_check(&request->experts, format, NULL);
}

static enum gemmd_error bind_experts(union any_array_request *request, enum format format,
                                     struct body_front *front, struct tensor *operands)
{
    struct experts_operands bound = {.a = {.rank = 0}};
    const enum gemmd_error code =
        experts_request_bind_front(&request->experts, format, front, &bound, NULL);
    memcpy(operands, bound.all, sizeof bound.all);
    return code;
}

static const struct array_operation array_operations[] = {
    {&reduce_parameter_table, REDUCE_OPERANDS, init_reduce, check_reduce, bind_reduce},
    {&softmax_parameter_table, SOFTMAX_OPERANDS, init_softmax, check_softmax, bind_softmax},
    {&conv2d_parameter_table, CONV2D_OPERANDS, init_conv2d, check_conv2d, bind_conv2d},
    {&experts_parameter_table, EXPERTS_OPERANDS, init_experts, check_experts, bind_experts},
};

static void check_array(const struct array_operation *operation, char *query, enum format format,
                        struct arrival *arrival)
{
    struct tensor early[OPERAND_TABLE_MAX], late[OPERAND_TABLE_MAX];
    union any_array_request request;
    struct body_front whole = {
        .bytes = arrival->body, .length = arrival->front.length, .received = arrival->front.length};
    enum gemmd_error code;
    operation->init(&request);
    for (char *pair = strsep(&query, "&"); pair != NULL; pair = strsep(&query, "&")) {
        const char *name = strsep(&pair, "=");
        (void)parameter_set(operation->parameters, &request, name, pair, NULL);
    }
    if (operation->check(&request, format) != GEMMD_OK)
        return;
    for (;;) {
        union any_array_request attempt = request;
        code = operation->bind(&attempt, format, &arrival->front, early);
        if (code != GEMMD_ERR_CONFLICT)
            break;
        arrive(arrival);
    }
    const enum gemmd_error in_the_end = operation->bind(&request, format, &whole, late);
    MUST(in_the_end != GEMMD_ERR_CONFLICT);
    MUST(code == GEMMD_OK || in_the_end != GEMMD_OK);
    for (uint32_t i = 0; i < operation->operands && in_the_end == GEMMD_OK; i++)
        check_same(&early[i], arrival->bytes, &late[i], arrival->body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    const uint8_t choice = input_byte(&input);
    const enum format format = (enum format)(choice % 3);
    const uint32_t array = choice >> 3 & 3; /* 0: a product or an attention */
    char *query = input_text(&input, '\n'), *rest = query;
    size_t body_bytes;
    uint8_t *body = input_take(&input, input.length, &body_bytes);
    struct arrival arrival = {.bytes = calloc(1, body_bytes > 0 ? body_bytes : 1), .body = body};
    arrival.front = (struct body_front){.bytes = arrival.bytes, .length = body_bytes};
    struct gemm_request gemm;
    struct attention_request attention;
    gemm_request_init(&gemm);
    attention_request_init(&attention);
    if (array > 0)
        check_array(&array_operations[array - 1], rest, format, &arrival);
    for (char *pair = strsep(&rest, "&"); array == 0 && pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        (void)gemm_request_set(&gemm, name, pair, NULL);
        (void)attention_request_set(&attention, name, pair, NULL);
    }
    if (array == 0 && choice & 4)
        check_attention(attention, format, &arrival);
    else if (array == 0)
        check_gemm(gemm, format, &arrival);
    free(arrival.bytes);
    free(body);
    free(query);
    return 0;
}
