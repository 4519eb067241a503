#include "client/payload.h"

#include <string.h>

#include "client/answer_buffer.h"
#include "client/failure.h"
#include "client/unpack.h"
#include "proto/size.h"

static enum gemmd_error payload_begin(struct gemmd_request *request, const struct answer *answer)
{
    struct sink *sink = &request->sink;
    uint64_t bytes = request->expected.bytes;
    /* A result that the daemon writes to shared memory is not part of the answer. */
    const bool is_in_shared_memory =
        request->shared_memory.used && request->shared_memory.result != NULL;
    const uint64_t payload_bytes = is_in_shared_memory ? 0 : bytes;
    if (answer->tensors) {
        unpack_begin(sink);
        return GEMMD_OK;
    }
    if (request->expected.lse_bytes > 0)
        return failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer is not a safetensors file, although the request asked for lse");
    if (request->expected.scales)
        return failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer is not a safetensors file, although the request asked for scales");
    if (answer->has_length && answer->length != payload_bytes)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer has %llu bytes and the result has %llu",
                           (unsigned long long)answer->length, (unsigned long long)payload_bytes);
    sink->kind = SINK_DATA;
    sink->wanted = payload_bytes;
    return answer_buffer_reserve(request, &sink->data, bytes);
}

static bool same_shape(const struct gemmd_request *request, const struct answer *answer)
{
    return answer->rank == request->expected.rank &&
           memcmp(answer->dims, request->expected.dims, answer->rank * sizeof answer->dims[0]) == 0;
}

enum gemmd_error payload_take_expected(struct gemmd_request *request, const struct answer *answer)
{
    struct gemmd_error_info *error = &request->error;
    if (!same_shape(request, answer))
        return failure_set(
            error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer's Gemmd-Shape header is missing or not the shape of the result");
    if (!answer->has_dtype || answer->dtype != request->expected.dtype)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Gemmd-Dtype header is missing or not %s",
                           gemmd_dtype_name(request->expected.dtype));
    if (request->expected.verify && !answer->verify_pass)
        return failure_set(
            error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer has no Gemmd-Verify header that says that the result passed");
    return payload_begin(request, answer);
}

enum gemmd_error payload_describe(struct gemmd_request *request, const struct answer *answer)
{
    struct gemmd_error_info *error = &request->error;
    if (answer->rank == 0 || !answer->has_dtype)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Gemmd-Shape or Gemmd-Dtype header is missing");
    if (!size_tensor_bytes(answer->dtype, answer->dims, answer->rank, &request->expected.bytes))
        return failure_set(
            error, GEMMD_ERR_PROTOCOL, NULL,
            "the tensor of the answer's Gemmd-Shape header has more than 2^63 bytes");
    request->expected.rank = answer->rank;
    memcpy(request->expected.dims, answer->dims, answer->rank * sizeof answer->dims[0]);
    request->expected.dtype = answer->dtype;
    return GEMMD_OK;
}

enum gemmd_error payload_take_described(struct gemmd_request *request, const struct answer *answer)
{
    enum gemmd_error code = payload_describe(request, answer);
    return code == GEMMD_OK ? payload_begin(request, answer) : code;
}
