/* Inference requests: 4 bytes of the JSON's length, little-endian, then the body. The views lie in
 * the body, those that are binary cover what follows the JSON, and data that is read is what its
 * shape says. */
#include <string.h>

#include "fuzz.h"
#include "proto/dtype.h"
#include "proto/oip.h"
#include "proto/oip_answer.h"
#include "proto/oip_data.h"
#include "proto/oip_datatype.h"

enum { LENGTH_BYTES = 4, ROOM = 4096 };

static void check_data(const struct oip_input *input, enum gemmd_dtype dtype)
{
    struct tensor tensor;
    struct fault fault = {.code = GEMMD_OK};
    if (!tensor_init(&tensor, dtype, input->dims, input->rank, NULL) || tensor.bytes > ROOM)
        return;
    unsigned char *out = malloc(tensor.bytes > 0 ? tensor.bytes : 1);
    enum gemmd_error code = oip_data_read(&input->array, input->name, &tensor, out, &fault);
    MUST(fault.code == code);
    if (code == GEMMD_OK && oip_datatype_has_json(dtype)) {
        const uint64_t count = tensor.bytes / dtype_size(dtype);
        char *text = malloc(count * oip_data_text_max(dtype) + 1);
        tensor.data = out;
        char *end = oip_data_write(&tensor, 0, count, text);
        MUST((uint64_t)(end - text) <= count * oip_data_text_max(dtype));
        free(text);
    }
    free(out);
}

static void check_views(const struct oip_request *request, const uint8_t *body, size_t length,
                        size_t json_bytes)
{
    const uint8_t *at = body + json_bytes;
    for (uint32_t i = 0; i < request->input_count; i++) {
        const struct oip_input *input = &request->inputs[i];
        MUST(strlen(input->name) <= OIP_NAME_MAX && input->rank <= TENSOR_MAX_RANK);
        if (input->binary) {
            MUST(input->data == at);
            at += input->bytes;
            continue;
        }
        const uint8_t *text = (const uint8_t *)input->array.text;
        MUST(text >= body && text + input->array.bytes <= body + json_bytes);
        for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
            check_data(input, (enum gemmd_dtype)dtype);
    }
    MUST(at == body + length);
}

static void check_answer(const struct oip_request *request)
{
    char text[OIP_ANSWER_TEXT_MAX];
    const uint64_t dims[] = {2, 2};
    struct json_text json;
    struct tensor tensor;
    MUST(tensor_init(&tensor, GEMMD_F32, dims, 2, NULL));
    json_text_start(&json, text, sizeof text);
    oip_answer_begin(&json, "gemm_fp32", request->id);
    oip_answer_output(&json, &(struct oip_answer_output){"C", &tensor, true, false});
    MUST(oip_answer_end(&json) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct oip_request request;
    struct fault fault = {.code = GEMMD_OK};
    if (length < LENGTH_BYTES)
        return 0;
    const size_t json_bytes =
        (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
    const uint8_t *body = bytes + LENGTH_BYTES;
    length -= LENGTH_BYTES;
    enum gemmd_error code = oip_request_decode(body, length, json_bytes, &request, &fault);
    MUST(fault.code == code);
    if (code != GEMMD_OK) {
        MUST(fault.detail[0] != '\0');
        return 0;
    }
    check_views(&request, body, length, json_bytes);
    check_answer(&request);
    return 0;
}
