#include "server/http/respond.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

#include "server/base/clock.h"
#include "server/base/drain_rate.h"
#include "server/base/random_id.h"
#include "server/http/connection.h"
#include "server/http/cors.h"
#include "server/http/digests.h"
#include "server/http/io_thread.h"
#include "server/http/negotiation.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/http/stream.h"

/* Returns false if memory ran out. */
static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* Adds the Location of an answer, which a client finds below --base-path. */
static bool add_location(const struct request *request, struct MHD_Response *response,
                         const char *path)
{
    const char *base = request->config->base_path;
    char location[HEADERS_TEXT_MAX];
    snprintf(location, sizeof location, "%s%s", base == NULL ? "" : base, path);
    return add_header(response, "Location", location);
}

static bool add_headers(const struct request *request, struct MHD_Response *response,
                        const struct headers *headers)
{
    for (uint32_t i = 0; headers != NULL && i < headers->count; i++) {
        const char *name = headers->entries[i].name;
        const char *value = headers->text + headers->entries[i].value;
        if (strcmp(name, "Location") == 0 ? !add_location(request, response, value)
                                          : !add_header(response, name, value))
            return false;
    }
    return true;
}

/* ---- payloads ---- */

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

/* Creates a response that sends the payload, of `bytes` bytes, with the headers that describe its
 * coding. The caller owns the response. Returns NULL if memory ran out; payload->sent has been
 * called then. */
static struct MHD_Response *payload_response(struct request *request, const struct payload *payload,
                                             uint64_t bytes)
{
    const bool eligible =
        request->config->compress_answers && !payload->as_it_is && bytes >= LEAST_BYTES;
    char accept[REQUEST_LIST_MAX];
    const enum coding coding =
        eligible ? coding_accepted(request_header_list(request, "Accept-Encoding", accept))
                 : CODING_IDENTITY;
    struct MHD_Response *response = coding == CODING_IDENTITY
                                        ? plain_response(payload)
                                        : deflation_response(request, payload, coding);
    request->written_in_pieces = coding != CODING_IDENTITY || payload->count > 1;
    if (response == NULL) {
        payload_sent(payload);
        return NULL;
    }
    if ((coding != CODING_IDENTITY &&
         !add_header(response, "Content-Encoding", coding_name(coding))) ||
        (eligible && !add_header(response, "Vary", "Accept-Encoding"))) {
        MHD_destroy_response(response); /* calls payload->sent */
        return NULL;
    }
    return response;
}

/* ---- answers ---- */

/* Gives the response to libmicrohttpd, and takes over the caller's reference to the response. NULL:
 * memory has run out even for an error. A request whose answer cannot be queued fails, and
 * request_handle then has libmicrohttpd close the connection. */
static void queue_response(struct request *request, int status, struct MHD_Response *response,
                           uint64_t length)
{
    request->status = status;
    request->response_bytes = length;
    request->sending_ns = clock_now_ns();
    /* libmicrohttpd closes a connection that is answered at the headers, although a body may still
     * arrive. */
    if (request->state == REQUEST_HEADERS)
        request->connection->linger = true;
    request->state = REQUEST_ANSWERED;
    connection_enter(request->connection, CONNECTION_SENDING, request->sending_ns);
    /* The bytes of a large answer are counted from the first byte on. For a small answer
     * a check (checks.h) begins to count, if it finds the answer still being sent. */
    if (length > SMALL_ANSWER_BYTES)
        delivery_begin(&request->connection->sending, request->connection->fd);
    const bool closes =
        request->unverified_framing || atomic_load(&request->server->stage) >= HTTP_HANDED_OVER;
    if (response == NULL || !add_header(response, "X-Request-Id", request->id) ||
        (request->config->allow_origin != NULL && !cors_add_headers(request, response)) ||
        (closes && !add_header(response, "Connection", "close")) ||
        MHD_queue_response(request->mhd, (unsigned)status, response) != MHD_YES) {
        request->state = REQUEST_FAILED;
        request->response_bytes = 0;
        request->connection->ended_by = GEMMD_ERR_OUT_OF_MEMORY;
    }
    MHD_destroy_response(response); /* NULL is allowed */
}

/* Queues a response with the digests of its payload that the client wants. A long payload is hashed
 * by the digester's thread first. A request that is answered at its headers, although it has a
 * body, cannot wait, and this thread must not hash for long: a long answer to it has no digest. */
static void queue_digested(struct request *request, int status, struct MHD_Response *response,
                           const struct payload *payload, uint64_t length)
{
    if (length <= DIGESTS_HERE_BYTES)
        queue_response(request, status, digests_add_headers(request, response, payload), length);
    else if (request->state == REQUEST_HEADERS)
        queue_response(request, status, response, length);
    else if (!digests_hand_over(request, response, status, payload))
        respond_out_of_memory(request);
}

void respond_digested(struct request *request)
{
    int status;
    uint64_t length;
    struct MHD_Response *response = digests_take_answer(request, &status, &length);
    if (response != NULL)
        queue_response(request, status, response, length);
    else
        respond_fault(request, &request->fault);
}

bool respond(struct request *request, int status, const struct headers *headers,
             const struct payload *whole)
{
    const bool digested =
        request->digests != NULL && status < 300 && digests_are_wanted(request->digests);
    struct payload payload = *whole;
    /* The digest of a compressed answer would be known only when the answer has been sent. */
    payload.as_it_is = payload.as_it_is || digested;
    const uint64_t bytes = payload_bytes(&payload);
    struct MHD_Response *response = payload_response(request, &payload, bytes);
    if (response == NULL || !add_headers(request, response, headers)) {
        MHD_destroy_response(response); /* calls payload->sent */
        respond_out_of_memory(request);
        return false;
    }
    if (digested)
        queue_digested(request, status, response, &payload, bytes);
    else
        queue_response(request, status, response, status == 304 ? 0 : bytes);
    return request->state != REQUEST_FAILED;
}

/* An answer that is sent piece by piece. The response owns the struct. */
struct pieces {
    struct request *request; /* borrowed: a request lives until its answer has ended */
    respond_read *read;
};

static ssize_t pieces_read(void *cls, uint64_t position, char *out, size_t room)
{
    const struct pieces *pieces = cls;
    const ssize_t got = pieces->read(pieces->request, position, out, room);
    if (got < 0) {
        pieces->request->connection->ended_by = pieces->request->fault.code;
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (got > 0)
        pieces->request->thread->moved = true;
    return got;
}

bool respond_pieces(struct request *request, const struct headers *headers, uint64_t bytes,
                    respond_read *read)
{
    struct pieces *pieces = malloc(sizeof *pieces);
    struct MHD_Response *response = NULL;
    if (pieces != NULL) {
        *pieces = (struct pieces){request, read};
        response = MHD_create_response_from_callback(bytes, RESPOND_PIECE_BYTES, pieces_read,
                                                     pieces, free);
        if (response == NULL)
            free(pieces);
    }
    if (response == NULL || !add_headers(request, response, headers)) {
        MHD_destroy_response(response); /* frees `pieces` */
        respond_out_of_memory(request);
        return false;
    }
    request->written_in_pieces = true;
    queue_response(request, 200, response, bytes);
    return request->state != REQUEST_FAILED;
}

bool respond_stream(struct request *request, const struct headers *headers,
                    const struct stream_source *source)
{
    struct MHD_Response *response = stream_response(request, source);
    if (response == NULL || !add_headers(request, response, headers)) {
        MHD_destroy_response(response); /* calls source->freed */
        respond_out_of_memory(request);
        return false;
    }
    queue_response(request, 200, response, 0);
    if (request->state == REQUEST_FAILED)
        return false;
    connection_enter(request->connection, CONNECTION_STREAMING, request->sending_ns);
    return true;
}

/* The content of an answer without a body. libmicrohttpd uses only the length of the response, and
 * never calls this function. */
static ssize_t no_body(void *cls, uint64_t position, char *buffer, size_t capacity)
{
    (void)cls;
    (void)position;
    (void)buffer;
    (void)capacity;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

void respond_empty(struct request *request, int status, const struct headers *headers,
                   uint64_t length)
{
    struct MHD_Response *response =
        length == 0 ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
                    : MHD_create_response_from_callback(length, 1, no_body, NULL, NULL);
    if (response == NULL || !add_headers(request, response, headers)) {
        MHD_destroy_response(response);
        respond_out_of_memory(request);
        return;
    }
    queue_response(request, status, response, 0);
}

/* The estimate of the time after which the same request may succeed. */
static uint32_t estimated_wait_s(const struct request *request, enum gemmd_error code)
{
    if (request->retry_after_s > 0)
        return request->retry_after_s;
    if (request->call == NULL || request->endpoint->retry_after_s == NULL)
        return 1;
    return request->endpoint->retry_after_s(request, code);
}

/* The seconds for Retry-After. Clients that are refused together would come back together, so that
 * up to half of the estimate is added at random. A client that waits for its own job is alone. */
static uint32_t retry_after_s(const struct request *request, enum gemmd_error code)
{
    const uint32_t wait_s = estimated_wait_s(request, code);
    if (code == GEMMD_ERR_CONFLICT)
        return wait_s;
    const uint32_t spread_s =
        wait_s + (uint32_t)(random_number(&request->thread->id_state) % (wait_s / 2 + 1));
    return spread_s < DRAIN_SECONDS_MAX || wait_s > DRAIN_SECONDS_MAX ? spread_s
                                                                      : DRAIN_SECONDS_MAX;
}

/* Adds the headers that the fault's code demands. Returns false if memory ran out. */
static bool add_fault_headers(const struct request *request, const struct fault *fault,
                              struct MHD_Response *response)
{
    if (!add_header(response, "Content-Type", "application/problem+json"))
        return false;
    if (error_retriable(fault->code) &&
        (error_status(fault->code) >= 429 || fault->code == GEMMD_ERR_CONFLICT)) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%" PRIu32, retry_after_s(request, fault->code));
        if (!add_header(response, "Retry-After", seconds))
            return false;
    }
    if (request->challenge != NULL)
        return add_header(response, "WWW-Authenticate", request->challenge);
    if (fault->code == GEMMD_ERR_MEDIA_TYPE && request->refuses_coding)
        return add_header(response, "Accept-Encoding", CODING_NAMES);
    if (fault->code == GEMMD_ERR_METHOD_NOT_ALLOWED && request->endpoint != NULL)
        return add_header(response, "Allow", request->endpoint->allow);
    return true;
}

void respond_fault(struct request *request, const struct fault *fault)
{
    char text[FAULT_JSON_BYTES];
    uint64_t length = fault_to_json(fault, request->id, text, sizeof text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY);
    if (response != NULL && !add_fault_headers(request, fault, response)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    if (fault != &request->fault)
        request->fault = *fault;
    queue_response(request, error_status(fault->code), response, length);
}

void respond_out_of_memory(struct request *request)
{
    fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
    respond_fault(request, &request->fault);
}

/* Sends a payload whose only header is Content-Type. */
static void respond_typed(struct request *request, int status, const char *content_type,
                          const struct payload *payload)
{
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", content_type);
    respond(request, status, &headers, payload);
}

void respond_text(struct request *request, int status, const char *content_type, char *text)
{
    if (text == NULL) {
        respond_out_of_memory(request);
        return;
    }
    const struct payload payload = {
        .parts = {{text, strlen(text)}}, .count = 1, .sent = free, .context = text};
    respond_typed(request, status, content_type, &payload);
}

void respond_static(struct request *request, int status, const char *content_type, const char *text,
                    uint64_t length)
{
    const struct payload payload = {.parts = {{text, (size_t)length}}, .count = 1};
    respond_typed(request, status, content_type, &payload);
}

bool respond_copy(struct request *request, int status, const struct headers *headers,
                  const char *text, uint64_t length)
{
    char *copy = malloc(length);
    if (copy == NULL) {
        respond_out_of_memory(request);
        return false;
    }
    memcpy(copy, text, length);
    const struct payload payload = {
        .parts = {{copy, (size_t)length}}, .count = 1, .sent = free, .context = copy};
    return respond(request, status, headers, &payload);
}
