/* Uploads of tensors: a query, a line end, and a body that arrives byte by byte or in steps. What
 * is found in the front of a body is what is found in the whole body. */
#include <string.h>

#include "fuzz.h"
#include "input.h"
#include "proto/gemm_scales.h"
#include "proto/packed.h"
#include "proto/tensor_request.h"

static void read_query(struct tensor_request *request, char *query)
{
    struct fault fault;
    tensor_request_init(request);
    for (char *pair = strsep(&query, "&"); pair != NULL; pair = strsep(&query, "&")) {
        char *name = strsep(&pair, "=");
        const enum gemmd_error code =
            parameter_set(&tensor_parameter_table, request, name, pair == NULL ? "" : pair, &fault);
        MUST(code == GEMMD_OK || (fault.code == code && fault.detail[0] != '\0'));
    }
    MUST(request->shape.rank <= TENSOR_MAX_RANK);
}

/* A file of packed weights that is found is arranged and restored. */
static void check_packed(const struct tensor_request *request, const uint8_t *body, size_t length)
{
    struct packed_file file;
    struct fault fault = {.code = GEMMD_OK};
    enum gemmd_error code =
        packed_find(request->format, request->bits, body, length, length, &file, &fault);
    if (code == GEMMD_OK)
        code = packed_check(&file, &fault);
    MUST(code != GEMMD_ERR_CONFLICT && fault.code == code);
    if (code != GEMMD_OK)
        return;
    MUST(file.layout.bytes <= 64 * (uint64_t)length);
    uint8_t *arranged = malloc(file.layout.bytes), *data = malloc(packed_data_bytes(&file));
    uint8_t *at = data;
    for (uint64_t i = 0; i < packed_stripes(&file); i++)
        packed_arrange_stripe(&file, i, arranged);
    packed_arrange_scales(&file, arranged);
    for (uint64_t i = 0; i < packed_stripes(&file); i++)
        packed_restore_stripe(&file, i, arranged, data);
    packed_restore_others(&file, arranged, data);
    for (uint32_t i = 0; i < file.count; at += file.entries[i++].tensor.bytes)
        MUST(memcmp(at, file.entries[i].tensor.data, file.entries[i].tensor.bytes) == 0);
    free(arranged);
    free(data);
}

static void check_body(const struct tensor_request *request, enum format format,
                       const uint8_t *body, size_t length)
{
    struct tensor whole, front, scale;
    struct fault fault = {.code = GEMMD_OK};
    if (tensor_request_check(request, format, &fault) != GEMMD_OK)
        return;
    if (request->format != PACKED_NONE) {
        check_packed(request, body, length);
        return;
    }
    const enum gemmd_error code =
        tensor_request_find(request, format, body, length, length, &whole, &scale, &fault);
    MUST(code != GEMMD_ERR_CONFLICT && fault.code == code);
    if (code == GEMMD_OK) {
        const uint8_t *data = whole.data;
        MUST(data >= body && whole.bytes <= (size_t)(body + length - data));
        if (scale.rank > 0 && gemm_scales_check("scale", &scale, &fault) != GEMMD_OK)
            MUST(fault.detail[0] != '\0');
    }
    uint8_t *arrived = calloc(1, length > 0 ? length : 1);
    for (size_t received = 0; received <= length; received += 1 + received / 8) {
        memcpy(arrived, body, received);
        const enum gemmd_error early =
            tensor_request_find(request, format, arrived, received, length, &front, &scale, &fault);
        if (early == GEMMD_ERR_CONFLICT)
            continue;
        MUST(early == code);
        if (code == GEMMD_OK)
            MUST((const uint8_t *)front.data - arrived == (const uint8_t *)whole.data - body &&
                 front.bytes == whole.bytes && front.dtype == whole.dtype &&
                 front.rank == whole.rank);
    }
    free(arrived);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    struct tensor_request request;
    size_t body_bytes;
    char *query = input_text(&input, '\n');
    uint8_t *body = input_take(&input, input.length, &body_bytes);
    read_query(&request, query);
    for (int format = FORMAT_RAW; format <= FORMAT_SAFETENSORS; format++)
        check_body(&request, (enum format)format, body, body_bytes);
    free(body);
    free(query);
    return 0;
}
