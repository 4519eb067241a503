/* Files that gemmctl reads: a byte that chooses the format and the files, the length of the first
 * file in two bytes, and the files. The operands lie in the files, and every byte is used. */
#include <string.h>
#include <unistd.h>

#include "client/gemmctl/operands.h"
#include "fuzz.h"
#include "input.h"

static void touch(const struct tensor *tensor)
{
    if (tensor->rank == 0 || tensor->data == NULL)
        return;
    MUST(!tensor->fortran);
    uint8_t *copy = malloc(tensor->bytes > 0 ? tensor->bytes : 1);
    MUST(copy != NULL);
    memcpy(copy, tensor->data, tensor->bytes);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct fuzz_input input = {bytes, length};
    struct fault fault = {.code = GEMMD_OK};
    struct gemm_request request;
    struct operands operands;
    const uint8_t choice = input_byte(&input);
    const size_t first_bytes = input_byte(&input) | (size_t)input_byte(&input) << 8;
    static const enum format formats[] = {FORMAT_NPY, FORMAT_SAFETENSORS, FORMAT_RAW};
    const enum format format = formats[choice % 3];
    char first[INPUT_PATH_MAX], second[INPUT_PATH_MAX];
    const size_t cut = first_bytes < input.length ? first_bytes : input.length;
    const int first_fd = input_file(input.bytes, cut, first);
    const int second_fd = input_file(input.bytes + cut, input.length - cut, second);
    const struct operand_paths paths = {.a = first,
                                        .b = cut < input.length ? second : NULL,
                                        .bias = choice & 8 ? second : NULL,
                                        .format = &format};
    gemm_request_init(&request);
    request.bias = paths.bias != NULL;
    if (format == FORMAT_RAW)
        request.m = request.n = request.k = 1 + (choice >> 4);
    const enum gemmd_error code = operands_open(&operands, &paths, &request, &fault);
    if (code == GEMMD_OK) {
        MUST(request.m > 0 && request.n > 0 && request.k > 0 && request.batch > 0);
        touch(&operands.bound.a);
        touch(&operands.bound.b);
        touch(&operands.bound.bias);
        touch(&operands.bound.c0);
    } else {
        MUST(fault.code == code && fault.detail[0] != '\0');
    }
    operands_close(&operands);
    close(first_fd);
    close(second_fd);
    return 0;
}
