/* safetensors files: the views cover the data exactly, what is read can be written again. */
#include <string.h>

#include "fuzz.h"
#include "proto/gemm_request.h"
#include "proto/safetensors.h"

enum { ROOM = 8 };

static void check_file(const uint8_t *bytes, size_t length)
{
    struct safetensors_entry entries[ROOM];
    struct fault fault = {.code = GEMMD_OK};
    uint32_t count;
    enum gemmd_error code = safetensors_decode(bytes, length, entries, ROOM, &count, &fault);
    MUST(fault.code == code);
    if (code != GEMMD_OK) {
        MUST(fault.detail[0] != '\0');
        return;
    }
    /* One behind the other up to the end. */
    const uint8_t *end = bytes + length;
    for (uint32_t i = count; i > 0; i--) {
        const struct tensor *tensor = &entries[i - 1].tensor;
        end -= tensor->bytes;
        MUST((const uint8_t *)tensor->data == end);
        MUST(strlen(entries[i - 1].name) < SAFETENSORS_NAME_MAX);
    }
    MUST(end >= bytes + 8);

    char header[SAFETENSORS_HEADER_MAX];
    uint32_t written = safetensors_header(entries, count, header);
    MUST(written <= SAFETENSORS_HEADER_MAX && written % 64 == 0);
}

static void check_body(const uint8_t *bytes, size_t length, double beta)
{
    struct gemm_request request;
    struct gemm_operands operands;
    gemm_request_init(&request);
    request.beta = beta;
    if (gemm_request_bind(&request, FORMAT_SAFETENSORS, bytes, length, &operands, NULL) != GEMMD_OK)
        return;
    uint64_t expected;
    MUST(request.m > 0 && request.n > 0 && request.k > 0 && request.batch > 0);
    MUST(gemm_request_raw_bytes(&request, &expected));
    MUST(expected == operands.a.bytes + operands.b.bytes + operands.bias.bytes + operands.c0.bytes);
    MUST(expected < length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    check_file(bytes, length);
    check_body(bytes, length, 0);
    check_body(bytes, length, 1);
    return 0;
}
