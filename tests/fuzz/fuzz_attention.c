/* Attentions: a query, a line end, and a body, which is read in each format. The operands that are
 * found lie in the body, and their sizes and lengths are within the limits. */
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "proto/attention_request.h"

static void read_query(struct attention_request *request, char *query)
{
    struct fault fault;
    attention_request_init(request);
    for (char *pair = strsep(&query, "&"); pair != NULL; pair = strsep(&query, "&")) {
        char *name = strsep(&pair, "=");
        const enum gemmd_error code = attention_request_set(request, name, pair, &fault);
        MUST(code == GEMMD_OK || (fault.code == code && fault.detail[0] != '\0'));
    }
}

static void check_sizes(const struct attention_request *request)
{
    struct tensor o, lse;
    MUST(request->batch >= 1 && request->kv_heads >= 1 && request->skv >= 1);
    MUST(request->heads >= 1 && request->heads % request->kv_heads == 0);
    MUST(request->d >= 1 && request->d <= ATTENTION_WIDTH_MAX);
    MUST(request->dv >= 1 && request->dv <= ATTENTION_WIDTH_MAX);
    MUST(request->rank >= 2 && request->rank <= 4);
    if (attention_request_result(request, &o, &lse))
        MUST(o.rank == request->rank && lse.rank + 1 == o.rank && lse.dtype == GEMMD_F32);
}

static void check_operands(const struct attention_request *request,
                           const struct attention_operands *operands, const uint8_t *body,
                           size_t length)
{
    for (int i = 0; i < ATTENTION_OPERANDS; i++) {
        const struct tensor *tensor = &operands->all[i];
        const uint8_t *data = tensor->data;
        if (tensor->rank == 0 || data == NULL)
            continue;
        MUST(data >= body && tensor->bytes <= (size_t)(body + length - data));
        uint8_t *copy = malloc(tensor->bytes > 0 ? tensor->bytes : 1);
        tensor_copy_row_major(tensor, copy);
        free(copy);
    }
    MUST(attention_request_check_lens(request, operands, NULL) == GEMMD_OK);
}

static void check_body(struct attention_request request, enum format format, const uint8_t *body,
                       size_t length)
{
    struct attention_operands operands;
    struct fault fault = {.code = GEMMD_OK};
    uint64_t expected;
    enum gemmd_error code = attention_request_check(&request, format, &fault);
    MUST(fault.code == code);
    if (code != GEMMD_OK)
        return;
    if (format == FORMAT_RAW) {
        check_sizes(&request);
        if (!attention_request_raw_bytes(&request, &expected))
            return;
        code = attention_request_check_raw_bytes(&request, length, &fault);
        MUST((code == GEMMD_OK) == (expected == length));
    }
    code = attention_request_bind(&request, format, body, length, &operands, &fault);
    if (code != GEMMD_OK) {
        MUST(fault.code == code && fault.detail[0] != '\0');
        return;
    }
    check_sizes(&request);
    check_operands(&request, &operands, body, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    struct attention_request request;
    size_t body_bytes;
    char *query = input_text(&input, '\n');
    uint8_t *body = input_take(&input, input.length, &body_bytes);
    read_query(&request, query);
    for (int format = FORMAT_RAW; format <= FORMAT_SAFETENSORS; format++)
        check_body(request, (enum format)format, body, body_bytes);
    free(body);
    free(query);
    return 0;
}
