#include "client/unpack.h"

#include <string.h>

#include "client/answer_buffer.h"
#include "client/failure.h"
#include "proto/safetensors.h"
#include "proto/size.h"

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
