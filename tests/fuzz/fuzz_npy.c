/* Bodies of .npy arrays: views stay inside, what is read can be written and read again. */
#include <string.h>

#include "fuzz.h"
#include "proto/gemm_request.h"
#include "proto/npy.h"

static void check_array(const uint8_t *bytes, size_t length, enum gemmd_dtype carrier)
{
    struct tensor tensor, again;
    struct fault fault = {.code = GEMMD_OK};
    uint64_t consumed, header_bytes;
    enum gemmd_error code = npy_decode(bytes, length, carrier, &tensor, &consumed, &fault);
    MUST(fault.code == code);
    if (code != GEMMD_OK) {
        MUST(fault.detail[0] != '\0');
        return;
    }
    MUST(consumed <= length && tensor.bytes <= consumed);
    MUST((const uint8_t *)tensor.data == bytes + (consumed - tensor.bytes));
    MUST(npy_decode_header(bytes, length, carrier, &again, &header_bytes, NULL) == GEMMD_OK);
    MUST(header_bytes == consumed - tensor.bytes && again.bytes == tensor.bytes);

    char header[NPY_HEADER_MAX];
    uint32_t written = npy_header(&tensor, header);
    MUST(written <= NPY_HEADER_MAX);
    MUST(npy_decode_header(header, written, carrier, &again, &header_bytes, NULL) == GEMMD_OK);
    MUST(again.dtype == tensor.dtype && again.fortran == tensor.fortran);
    MUST(again.rank == tensor.rank && memcmp(again.dims, tensor.dims, sizeof again.dims) == 0);

    void *copy = malloc(tensor.bytes > 0 ? tensor.bytes : 1);
    MUST(copy != NULL);
    tensor_copy_row_major(&tensor, copy);
    free(copy);
}

static void check_body(const uint8_t *bytes, size_t length, bool bias, double beta)
{
    struct gemm_request request;
    struct gemm_operands operands;
    gemm_request_init(&request);
    request.bias = bias;
    request.beta = beta;
    if (gemm_request_bind(&request, FORMAT_NPY, bytes, length, &operands, NULL) != GEMMD_OK)
        return;
    uint64_t expected;
    MUST(request.m > 0 && request.n > 0 && request.k > 0 && request.batch > 0);
    MUST(gemm_request_raw_bytes(&request, &expected));
    MUST(expected == operands.a.bytes + operands.b.bytes + operands.bias.bytes + operands.c0.bytes);
    MUST(expected < length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    check_array(bytes, length, GEMMD_DTYPE_COUNT);
    check_array(bytes, length, GEMMD_BF16);
    check_array(bytes, length, GEMMD_F8_E4M3);
    check_body(bytes, length, false, 0);
    check_body(bytes, length, true, 0);
    check_body(bytes, length, false, 1);
    return 0;
}
