#include "server/http/payload.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "server/http/negotiation.h"
#include "server/http/request.h"
#include "server/http/server.h"

enum {
    LEAST_BYTES = 1024, /* shorter answers are not compressed */
    BLOCK_BYTES = 32 * 1024,
    /* The most bytes that are compressed before the thread serves other connections. */
    PIECE_BYTES = 256 * 1024,
    MEMORY_LEVEL = 8,
    GZIP_FORMAT = 16
};

/* A payload that is compressed while it is sent. The response owns the struct. */
struct deflation {
    struct request *request; /* borrowed: a request lives until its answer was sent */
    struct payload payload;
    uint32_t part;  /* the part that is being compressed */
    uint64_t taken; /* bytes of that part that zlib was given */
    uint64_t sent_bytes;
    bool ended;
    z_stream stream;
};

uint64_t payload_bytes(const struct payload *payload)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < payload->count; i++)
        bytes += payload->parts[i].iov_len;
    return bytes;
}

/* Gives zlib the next bytes to compress. */
static void deflation_feed(struct deflation *deflation)
{
    const struct payload *payload = &deflation->payload;
    while (deflation->part < payload->count) {
        const struct MHD_IoVec *part = &payload->parts[deflation->part];
        const uint64_t left = part->iov_len - deflation->taken;
        if (left > 0) {
            deflation->stream.next_in = (const unsigned char *)part->iov_base + deflation->taken;
            deflation->stream.avail_in = left < PIECE_BYTES ? (uInt)left : PIECE_BYTES;
            deflation->taken += deflation->stream.avail_in;
            return;
        }
        deflation->part++;
        deflation->taken = 0;
    }
}

static ssize_t deflation_read(void *cls, uint64_t position, char *out, size_t room)
{
    struct deflation *deflation = cls;
    z_stream *stream = &deflation->stream;
    (void)position;
    if (deflation->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->next_out = (unsigned char *)out;
    stream->avail_out = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
    const uInt given = stream->avail_out;
    while (stream->avail_out == given && !deflation->ended) {
        if (stream->avail_in == 0)
            deflation_feed(deflation);
        const int result = deflate(stream, stream->avail_in == 0 ? Z_FINISH : Z_NO_FLUSH);
        if (result == Z_STREAM_ERROR)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        deflation->ended = result == Z_STREAM_END;
    }
    deflation->sent_bytes += given - stream->avail_out;
    deflation->request->response_bytes = deflation->sent_bytes;
    return (ssize_t)(given - stream->avail_out);
}

static void payload_sent(const struct payload *payload)
{
    if (payload->sent != NULL)
        payload->sent(payload->context);
}

static void deflation_end(void *cls)
{
    struct deflation *deflation = cls;
    deflateEnd(&deflation->stream);
    payload_sent(&deflation->payload);
    free(deflation);
}

static struct MHD_Response *deflation_response(struct request *request,
                                               const struct payload *payload, enum coding coding)
{
    const int format = MAX_WBITS + (coding == CODING_GZIP ? GZIP_FORMAT : 0);
    struct deflation *deflation = calloc(1, sizeof *deflation);
    if (deflation == NULL)
        return NULL;
    deflation->request = request;
    deflation->payload = *payload;
    if (deflateInit2(&deflation->stream, Z_BEST_SPEED, Z_DEFLATED, format, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(deflation);
        return NULL;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, deflation_read, deflation, deflation_end);
    if (response == NULL) {
        deflateEnd(&deflation->stream);
        free(deflation);
        return NULL;
    }
    return response;
}

static struct MHD_Response *plain_response(const struct payload *payload)
{
    /* libmicrohttpd only reads the buffer, but its parameter is not const. */
    union {
        const void *in;
        void *out;
    } memory = {.in = payload->parts[0].iov_base};
    if (payload->count > 1)
        return MHD_create_response_from_iovec(payload->parts, payload->count, payload->sent,
                                              payload->context);
    if (payload->sent == NULL)
        return MHD_create_response_from_buffer(payload->parts[0].iov_len, memory.out,
                                               MHD_RESPMEM_PERSISTENT);
    return MHD_create_response_from_buffer_with_free_callback_cls(
        payload->parts[0].iov_len, memory.out, payload->sent, payload->context);
}

/* Returns false if memory ran out. */
static bool add_coding_headers(struct MHD_Response *response, bool eligible, enum coding coding)
{
    if (coding != CODING_IDENTITY &&
        MHD_add_response_header(response, "Content-Encoding", coding_name(coding)) != MHD_YES)
        return false;
    return !eligible || MHD_add_response_header(response, "Vary", "Accept-Encoding") == MHD_YES;
}

struct MHD_Response *payload_response(struct request *request, const struct payload *payload)
{
    const bool eligible = request->config->compress_answers && !payload->as_it_is &&
                          payload_bytes(payload) >= LEAST_BYTES;
    const enum coding coding =
        eligible ? coding_accepted(request_header(request, "Accept-Encoding")) : CODING_IDENTITY;
    struct MHD_Response *response = coding == CODING_IDENTITY
                                        ? plain_response(payload)
                                        : deflation_response(request, payload, coding);
    request->written_in_pieces = coding != CODING_IDENTITY || payload->count > 1;
    if (response == NULL) {
        payload_sent(payload);
        return NULL;
    }
    if (!add_coding_headers(response, eligible, coding)) {
        MHD_destroy_response(response); /* calls payload->sent */
        return NULL;
    }
    return response;
}
