#include "client/payload.h"

#include <stdlib.h>
#include <string.h>

#include "client/failure.h"
#include "proto/safetensors.h"
#include "proto/size.h"

#define TEXT_MAX (UINT64_C(64) * 1024 * 1024)

enum { RESULT_ALIGNMENT = 64 };

/* Makes sure that `buffer`, a buffer of the request's sink, has at least `bytes` bytes. If `buffer`
 * is the caller's, only checks the size: GEMMD_ERR_USAGE if the buffer is too small. Otherwise
 * allocates a new buffer, which the request owns, and releases the one of an earlier attempt:
 * GEMMD_ERR_OUT_OF_MEMORY. */
static enum gemmd_error answer_buffer_reserve(struct gemmd_request *request,
                                              struct answer_buffer *buffer, uint64_t bytes)
{
    if (buffer->data != NULL && !buffer->owned) {
        if (buffer->room < bytes)
            return failure_set(&request->error, GEMMD_ERR_USAGE, "bytes",
                               "the result takes %llu bytes and its buffer has %llu",
                               (unsigned long long)bytes, (unsigned long long)buffer->room);
        return GEMMD_OK;
    }
    /* The buffer of an earlier attempt may have been allocated for a result of another shape. */
    void *data;
    free(buffer->data);
    *buffer = (struct answer_buffer){0};
    if (posix_memalign(&data, RESULT_ALIGNMENT, bytes) != 0)
        return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for a result of %llu bytes",
                           (unsigned long long)bytes);
    *buffer = (struct answer_buffer){.data = data, .room = bytes, .owned = true};
    return GEMMD_OK;
}

/* ---- safetensors files ---- */

enum { LENGTH_BYTES = 8, TENSORS = 2 };
_Static_assert((int)TENSOR_MAX_RANK == (int)ANSWER_MAX_RANK, "one rank");

void unpack_begin(struct sink *sink)
{
    sink->kind = SINK_TENSORS;
    sink->wanted = 0;
    memset(sink->parts, 0, sizeof sink->parts);
}

static enum gemmd_error unpack_refuse(struct gemmd_request *request, const char *reason)
{
    return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                       "the answer is not the safetensors file that the request asked for: %s",
                       reason);
}

/* Returns the length of the file's front, which is the length field and the header; 0 if the length
 * field has not been received yet. */
static uint64_t front_bytes(const struct transfer *transfer)
{
    uint64_t length = 0;
    if (transfer->document_bytes < LENGTH_BYTES)
        return 0;
    memcpy(&length, transfer->document, LENGTH_BYTES);
    return length < sizeof transfer->document ? LENGTH_BYTES + length : UINT64_MAX;
}

/* Appends bytes of the front to the document. Returns the number of bytes appended. */
static size_t unpack_collect(struct transfer *transfer, const char *data, size_t bytes,
                             uint64_t front)
{
    size_t missing = (size_t)front - transfer->document_bytes;
    size_t part = bytes < missing ? bytes : missing;
    memcpy(transfer->document + transfer->document_bytes, data, part);
    transfer->document_bytes += part;
    return part;
}

enum unpacked { UNPACKED_RESULT, UNPACKED_LSE, UNPACKED_SCALE };

/* A tensor called "scale" is the result of a request that asks for no scales. */
static enum unpacked unpack_recognise(const struct gemmd_request *request, const char *name)
{
    if (strcmp(name, "lse") == 0)
        return UNPACKED_LSE;
    return request->expected.scales && strcmp(name, "scale") == 0 ? UNPACKED_SCALE
                                                                  : UNPACKED_RESULT;
}

/* Sets `*buffer` to the buffer for one of the file's tensors, after making it large enough. */
static enum gemmd_error unpack_find_buffer(struct gemmd_request *request,
                                           const struct tensor *tensor, enum unpacked what,
                                           struct answer_buffer **buffer)
{
    struct sink *sink = &request->sink;
    *buffer = what == UNPACKED_LSE     ? &sink->lse
              : what == UNPACKED_SCALE ? &sink->scale
                                       : &sink->data;
    if (what == UNPACKED_SCALE && tensor->dtype != GEMMD_F32)
        return unpack_refuse(request, "the scales are not of type f32");
    if (what == UNPACKED_LSE &&
        (tensor->dtype != GEMMD_F32 ||
         (request->expected.lse_bytes > 0 && tensor->bytes != request->expected.lse_bytes)))
        return unpack_refuse(request, "lse has another type or size");
    if (what == UNPACKED_RESULT &&
        (tensor->dtype != request->expected.dtype || tensor->bytes != request->expected.bytes))
        return unpack_refuse(request, "the result has another type or size");
    return answer_buffer_reserve(request, *buffer, tensor->bytes);
}

/* Reads the file's complete header, and assigns a buffer to each tensor. request->expected has the
 * result's type and shape already, from the answer's header. */
static enum gemmd_error unpack_assign_buffers(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    struct sink *sink = &request->sink;
    struct safetensors_entry entries[TENSORS];
    const struct answer *answer = &transfer->answer;
    uint64_t total = transfer->document_bytes;
    uint32_t count = 0, results = 0, lse_count = 0;
    struct fault fault = {.detail = ""};
    if (!answer->has_length)
        return unpack_refuse(request, "it has no Content-Length");
    if (answer->length < total)
        return unpack_refuse(request, "it ends in its header");
    enum gemmd_error code =
        safetensors_decode(transfer->document, answer->length, entries, TENSORS, &count, &fault);
    if (code == GEMMD_ERR_OUT_OF_MEMORY)
        return failure_set(&request->error, code, NULL, "%s", fault.detail);
    if (code != GEMMD_OK)
        return unpack_refuse(request, fault.detail);
    for (uint32_t i = 0; i < count; i++) {
        const enum unpacked what = unpack_recognise(request, entries[i].name);
        struct answer_buffer *buffer;
        code = unpack_find_buffer(request, &entries[i].tensor, what, &buffer);
        if (code != GEMMD_OK)
            return code;
        results += what == UNPACKED_RESULT;
        lse_count += what == UNPACKED_LSE;
        if (what == UNPACKED_LSE) {
            sink->lse_rank = entries[i].tensor.rank;
            memcpy(sink->lse_dims, entries[i].tensor.dims, sizeof sink->lse_dims);
        } else if (what == UNPACKED_SCALE) {
            sink->scale_rank = entries[i].tensor.rank;
            memcpy(sink->scale_dims, entries[i].tensor.dims, sizeof sink->scale_dims);
        }
        sink->parts[i].data = buffer->data;
        sink->parts[i].bytes = entries[i].tensor.bytes;
        sink->wanted += entries[i].tensor.bytes; /* no more than the whole file */
    }
    if (results != 1)
        return unpack_refuse(request, "it does not hold one result");
    if (request->expected.lse_bytes > 0 && lse_count == 0)
        return unpack_refuse(request, "lse is missing");
    return GEMMD_OK;
}

static enum gemmd_error unpack_scatter(struct gemmd_request *request, const char *data,
                                       size_t bytes)
{
    struct sink *sink = &request->sink;
    uint64_t begin = 0; /* of the part, in the file's data */
    if (bytes > sink->wanted - sink->bytes)
        return unpack_refuse(request, "it is longer than its tensors");
    for (uint32_t i = 0; i < TENSORS && bytes > 0; i++) {
        const uint64_t end = begin + sink->parts[i].bytes;
        if (sink->bytes < end) {
            const uint64_t offset = sink->bytes - begin, left = end - sink->bytes;
            const size_t part = bytes < left ? bytes : (size_t)left;
            memcpy(sink->parts[i].data + offset, data, part);
            data += part;
            bytes -= part;
            sink->bytes += part;
        }
        begin = end;
    }
    return GEMMD_OK;
}

enum gemmd_error unpack_take(struct transfer *transfer, const char *data, size_t bytes)
{
    struct gemmd_request *request = transfer->request;
    if (request->sink.wanted == 0) {
        const size_t length = transfer->document_bytes < LENGTH_BYTES
                                  ? unpack_collect(transfer, data, bytes, LENGTH_BYTES)
                                  : 0;
        const uint64_t front = front_bytes(transfer);
        if (front > sizeof transfer->document)
            return unpack_refuse(request, "its header is too long");
        if (front == 0)
            return GEMMD_OK;
        const size_t header = unpack_collect(transfer, data + length, bytes - length, front);
        if (transfer->document_bytes < front)
            return GEMMD_OK;
        enum gemmd_error code = unpack_assign_buffers(transfer);
        if (code != GEMMD_OK)
            return code;
        data += length + header;
        bytes -= length + header;
    }
    return unpack_scatter(request, data, bytes);
}

enum gemmd_error unpack_end(struct gemmd_request *request)
{
    if (request->sink.wanted == 0)
        return unpack_refuse(request, "it ends in its header");
    if (request->sink.bytes != request->sink.wanted)
        return unpack_refuse(request, "it ends before its tensors do");
    return GEMMD_OK;
}

/* ---- headers ---- */

static enum gemmd_error payload_begin(struct gemmd_request *request, const struct answer *answer)
{
    struct sink *sink = &request->sink;
    uint64_t bytes = request->expected.bytes;
    /* A result that the daemon writes to shared memory is not part of the answer. */
    const bool is_in_shared_memory =
        request->shared_memory.used && request->shared_memory.result != NULL;
    const uint64_t payload_bytes = is_in_shared_memory ? 0 : bytes;
    const bool is_file = request->expected.dtype == GEMMD_DTYPE_COUNT;
    if (answer->tensors && !is_file) {
        unpack_begin(sink);
        return GEMMD_OK;
    }
    if (request->expected.lse_bytes > 0)
        return failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer is not a safetensors file, although the request asked for lse");
    if (request->expected.scales && !is_file)
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
    /* A tensor of another type, such as packed weights, is a file. */
    const bool is_file = answer->type[0] != '\0' && !answer->has_dtype && answer->tensors;
    if (answer->rank == 0 || !(answer->has_dtype || is_file))
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Gemmd-Shape or Gemmd-Dtype header is missing");
    if (is_file && !answer->has_length)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Content-Length header is missing");
    if (is_file)
        request->expected.bytes = answer->length;
    else if (!size_tensor_bytes(answer->dtype, answer->dims, answer->rank,
                                &request->expected.bytes))
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

enum gemmd_error payload_take_sized(struct gemmd_request *request, const struct answer *answer)
{
    if (!answer->has_length || !answer->has_dtype)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Content-Length or Gemmd-Dtype header is missing");
    request->expected.dtype = answer->dtype;
    request->expected.bytes = answer->length;
    return payload_begin(request, answer);
}

/* ---- bytes ---- */

/* Grows the sink of a text so that `more` bytes and a terminating NUL fit. */
static enum gemmd_error grow_text(struct gemmd_request *request, uint64_t more)
{
    struct sink *sink = &request->sink;
    uint64_t needed = sink->bytes + more + 1;
    if (needed <= sink->data.room)
        return GEMMD_OK;
    if (needed > TEXT_MAX)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer is longer than %llu bytes", (unsigned long long)TEXT_MAX);
    uint64_t room = needed < 4096 ? 4096 : needed * 2;
    char *data = realloc(sink->data.data, room);
    if (data == NULL)
        return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "there is no memory for an answer of %llu bytes",
                           (unsigned long long)needed);
    sink->data = (struct answer_buffer){.data = data, .room = room, .owned = true};
    return GEMMD_OK;
}

enum gemmd_error payload_take(struct transfer *transfer, const char *data, size_t bytes)
{
    struct gemmd_request *request = transfer->request;
    struct sink *sink = &request->sink;
    if (sink->kind == SINK_TENSORS)
        return transfer->refused = unpack_take(transfer, data, bytes);
    if (sink->kind == SINK_TEXT)
        transfer->refused = grow_text(request, bytes);
    else if (bytes > sink->wanted - sink->bytes)
        transfer->refused = failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                                        "the answer is longer than the result's %llu bytes",
                                        (unsigned long long)sink->wanted);
    if (transfer->refused != GEMMD_OK)
        return transfer->refused;
    memcpy(sink->data.data + sink->bytes, data, bytes);
    sink->bytes += bytes;
    return GEMMD_OK;
}

enum gemmd_error payload_end(struct gemmd_request *request)
{
    struct sink *sink = &request->sink;
    if (sink->kind == SINK_TEXT) {
        enum gemmd_error code = grow_text(request, 0);
        if (code == GEMMD_OK)
            sink->data.data[sink->bytes] = '\0';
        return code;
    }
    if (sink->kind == SINK_TENSORS)
        return unpack_end(request);
    if (sink->kind == SINK_DATA && sink->bytes != sink->wanted)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer has %llu bytes and the result has %llu",
                           (unsigned long long)sink->bytes, (unsigned long long)sink->wanted);
    if (sink->kind == SINK_DATA)
        shared_memory_collect(request);
    return GEMMD_OK;
}
