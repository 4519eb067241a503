#include "client/callbacks.h"

#include <stdlib.h>
#include <string.h>

#include "client/failure.h"
#include "client/unpack.h"

#define TEXT_MAX (UINT64_C(64) * 1024 * 1024)

size_t callback_read(char *out, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    return body_read(shared_memory_body(transfer->request), out, size * count);
}

int callback_seek(void *user, curl_off_t offset, int origin)
{
    struct transfer *transfer = user;
    if (origin != SEEK_SET || offset < 0 ||
        !body_seek(shared_memory_body(transfer->request), (uint64_t)offset))
        return CURL_SEEKFUNC_FAIL;
    return CURL_SEEKFUNC_OK;
}

size_t callback_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    answer_line(&transfer->answer, line, size * count);
    return size * count;
}

enum gemmd_error callback_accept(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    if (transfer->accepted || transfer->refused != GEMMD_OK)
        return transfer->refused;
    if (transfer->answer.encoded)
        transfer->refused = failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer is compressed, although the request did not ask for compression");
    else if (request->operation->accept != NULL)
        transfer->refused = request->operation->accept(request, &transfer->answer);
    transfer->accepted = transfer->refused == GEMMD_OK;
    return transfer->refused;
}

enum gemmd_error callback_grow_text(struct gemmd_request *request, uint64_t more)
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

static enum gemmd_error take_payload(struct transfer *transfer, const char *data, size_t bytes)
{
    struct gemmd_request *request = transfer->request;
    struct sink *sink = &request->sink;
    if (sink->kind == SINK_TENSORS)
        return transfer->refused = unpack_take(transfer, data, bytes);
    if (sink->kind == SINK_TEXT)
        transfer->refused = callback_grow_text(request, bytes);
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

static void keep_front(struct transfer *transfer, const char *data, size_t bytes)
{
    size_t room = sizeof transfer->document - transfer->document_bytes;
    size_t part = bytes < room ? bytes : room;
    memcpy(transfer->document + transfer->document_bytes, data, part);
    transfer->document_bytes += part;
}

size_t callback_write(char *data, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    const struct gemmd_request *request = transfer->request;
    size_t bytes = size * count;
    bool taken = operation_takes(request->operation, transfer->answer.status);
    if (request->client->options.check_digests)
        answer_digest_add(&transfer->digest, data, bytes);
    if (taken && callback_accept(transfer) != GEMMD_OK)
        return 0;
    if (taken && request->sink.kind != SINK_NONE)
        return take_payload(transfer, data, bytes) == GEMMD_OK ? bytes : 0;
    keep_front(transfer, data, bytes);
    return bytes;
}
