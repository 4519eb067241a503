/* Query strings "name=value&...": an answer to any, limits that hold, problem documents that are
 * JSON. */
#include <jansson.h>
#include <string.h>

#include "fuzz.h"
#include "proto/gemm_request.h"

static void check_fault(const struct fault *fault, enum gemmd_error code)
{
    char text[FAULT_JSON_BYTES];
    MUST(fault->code == code && fault->detail[0] != '\0');
    uint64_t length = fault_to_json(fault, "", text, sizeof text);
    MUST(length > 0 && length == strlen(text));
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    MUST(json != NULL);
    json_decref(json);
}

/* A raw body is taken at the length that was announced, and at no other. */
static void check_raw(struct gemm_request *request)
{
    static const uint8_t body[4096];
    struct gemm_operands operands;
    struct fault fault;
    uint64_t expected, result;
    if (!gemm_request_raw_bytes(request, &expected) || expected >= sizeof body)
        return;
    MUST(gemm_request_bind(request, FORMAT_RAW, body, expected, &operands, NULL) == GEMMD_OK);
    MUST(operands.a.bytes + operands.b.bytes + operands.bias.bytes + operands.c0.bytes == expected);
    enum gemmd_error code =
        gemm_request_bind(request, FORMAT_RAW, body, expected + 1, &operands, &fault);
    MUST(code == GEMMD_ERR_MALFORMED);
    check_fault(&fault, code);
    struct tensor tensor;
    if (gemm_request_result_bytes(request, &result))
        MUST(gemm_request_result(request, NULL, &tensor) && tensor.bytes == result);
}

static void check_request(struct gemm_request *request, enum format format)
{
    struct fault fault;
    enum gemmd_error code = gemm_request_check(request, format, &fault);
    if (code != GEMMD_OK) {
        check_fault(&fault, code);
        return;
    }
    MUST(request->batch >= 1 && request->batch <= GEMM_DIM_MAX);
    MUST(request->priority <= GEMM_PRIORITY_MAX);
    MUST(request->alpha - request->alpha == 0 && request->beta - request->beta == 0); /* finite */
    if (format == FORMAT_RAW)
        check_raw(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct gemm_request request;
    struct fault fault;
    enum gemmd_error code = GEMMD_OK;
    char *text = malloc(length + 1), *rest = text;
    MUST(text != NULL);
    memcpy(text, bytes, length);
    text[length] = '\0';
    gemm_request_init(&request);
    for (char *pair = strsep(&rest, "&"); pair != NULL; pair = strsep(&rest, "&")) {
        char *name = strsep(&pair, "=");
        code = gemm_request_set(&request, name, pair, &fault);
        if (code != GEMMD_OK)
            check_fault(&fault, code);
    }
    /* What was refused has left no trace, so the rest is still a request. */
    for (int format = FORMAT_RAW; format <= FORMAT_SAFETENSORS; format++) {
        struct gemm_request copy = request;
        check_request(&copy, (enum format)format);
    }
    free(text);
    return 0;
}
