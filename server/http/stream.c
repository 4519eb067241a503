#include "server/http/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/connection.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/http/tokens.h"
#include "server/net/delivery.h"

struct stream {
    struct list_item in_thread;
    struct io_thread *thread;
    struct request *request; /* borrowed: a request lives until its answer has ended */
    uint32_t tenant;         /* who holds the reservation */
    struct stream_source source;
    size_t length, taken; /* of the piece, and how much of it libmicrohttpd has */
    bool ended;           /* no piece follows */
    bool suspended;       /* libmicrohttpd has suspended the connection */
    char piece[STREAM_PIECE_BYTES];
};

enum gemmd_error stream_reserve(struct request *request)
{
    struct http_server *server = request->server;
    const uint32_t tenants = server->tokens != NULL ? tokens_tenants_named(server->tokens) : 1;
    const uint64_t share = config_share(request->config, tenants, STREAMS_MAX); /* 0: none */
    const uint32_t others = atomic_fetch_add(&server->tenant_streams[request->tenant_number], 1);
    const bool full = atomic_fetch_add(&server->streams, 1) >= STREAMS_MAX;
    if (!full && (share == 0 || others < share))
        return GEMMD_OK;
    stream_release(server, request->tenant_number);
    if (full)
        return fault_set(&request->fault, GEMMD_ERR_QUEUE_FULL, NULL,
                         "%d streams of events and histories are being sent, which is the limit",
                         STREAMS_MAX);
    return fault_set(&request->fault, GEMMD_ERR_QUEUE_FULL, NULL,
                     "%" PRIu32 " streams of events and histories are being sent to this tenant, "
                     "which is its share (--tenant-share) of %d",
                     others, STREAMS_MAX);
}

void stream_release(struct http_server *server, uint32_t tenant)
{
    atomic_fetch_sub(&server->streams, 1);
    atomic_fetch_sub(&server->tenant_streams[tenant], 1);
}

static void give_back(const struct request *request, const struct stream_source *source)
{
    stream_release(request->server, request->tenant_number);
    source->freed(source->context);
}

/* Fetches the next piece if the one before was taken. Returns whether there is something to send.
 */
static bool has_piece(struct stream *stream)
{
    if (stream->taken < stream->length)
        return true;
    stream->taken = stream->length = 0;
    if (!stream->ended)
        stream->length = stream->source.next(stream->source.context, stream->piece, &stream->ended);
    return stream->length > 0;
}

static ssize_t stream_read(void *cls, uint64_t position, char *out, size_t room)
{
    struct stream *stream = cls;
    (void)position;
    if (has_piece(stream)) {
        const size_t left = stream->length - stream->taken;
        const size_t size = left < room ? left : room;
        memcpy(out, stream->piece + stream->taken, size);
        stream->taken += size;
        stream->request->response_bytes += size;
        stream->thread->moved = true;
        return (ssize_t)size;
    }
    if (stream->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->suspended = true;
    MHD_suspend_connection(stream->request->mhd);
    return 0;
}

static void stream_free(void *cls)
{
    struct stream *stream = cls;
    list_remove(&stream->in_thread);
    stream_release(stream->thread->server, stream->tenant);
    stream->source.freed(stream->source.context);
    free(stream);
}

struct MHD_Response *stream_response(struct request *request, const struct stream_source *source)
{
    struct stream *stream = malloc(sizeof *stream);
    if (stream == NULL) {
        give_back(request, source);
        return NULL;
    }
    stream->thread = request->thread;
    stream->request = request;
    stream->tenant = request->tenant_number;
    stream->source = *source;
    stream->length = stream->taken = 0;
    stream->ended = stream->suspended = false;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_PIECE_BYTES, stream_read, stream, stream_free);
    if (response == NULL) {
        free(stream);
        give_back(request, source);
        return NULL;
    }
    list_append(&stream->thread->streams, &stream->in_thread);
    return response;
}

static void stream_resume(struct stream *stream)
{
    if (stream->suspended)
        MHD_resume_connection(stream->request->mhd);
    stream->suspended = false;
}

static void stream_check(struct stream *stream, bool closing)
{
    struct connection *connection = stream->request->connection;
    const bool behind = delivery_outstanding(connection->fd) > STREAM_BEHIND_BYTES;
    const bool lost = behind || connection_has_ended(connection);
    if (behind)
        connection->ended_by = GEMMD_ERR_SLOW_CLIENT;
    if (lost)
        connection_abandon(connection);
    stream->ended = stream->ended || closing || lost;
    if (stream->ended || has_piece(stream))
        stream_resume(stream);
}

void streams_check(struct io_thread *thread)
{
    const bool closing = atomic_load(&thread->server->stage) >= HTTP_HANDED_OVER;
    for (struct list_item *item = thread->streams.first; item != NULL; item = item->next)
        stream_check(OWNER_OF(item, struct stream, in_thread), closing);
}

void streams_stop(struct io_thread *thread)
{
    for (struct list_item *item = thread->streams.first; item != NULL; item = item->next) {
        struct stream *stream = OWNER_OF(item, struct stream, in_thread);
        stream->ended = true;
        stream_resume(stream);
    }
}
