/* Bodies of which only the front has been received: a byte that chooses the operation and the
 * format, a query, a line end, and the body. What is bound early is what is bound in the end. */
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "proto/attention_request.h"
#include "proto/gemm_request.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    const uint8_t choice = input_byte(&input);
    const enum format format = (enum format)(choice % 3);
    char *query = input_text(&input, '\n'), *rest = query;
    size_t body_bytes;
    uint8_t *body = input_take(&input, input.length, &body_bytes);
    struct arrival arrival = {.bytes = calloc(1, body_bytes > 0 ? body_bytes : 1), .body = body};
    arrival.front = (struct body_front){.bytes = arrival.bytes, .length = body_bytes};
    struct gemm_request gemm;
    struct attention_request attention;
    gemm_request_init(&gemm);
    attention_request_init(&attention);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        (void)gemm_request_set(&gemm, name, pair, NULL);
        (void)attention_request_set(&attention, name, pair, NULL);
    }
    if (choice & 4)
        check_attention(attention, format, &arrival);
    else
        check_gemm(gemm, format, &arrival);
    free(arrival.bytes);
    free(body);
    free(query);
    return 0;
}
