#include "client/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/outcome.h"
#include "client/pool.h"
#include "client/query.h"

/* From this length of body or result on, a transfer has large buffers. */
#define BULK_BYTES (UINT64_C(256) * 1024)

/* Above this length the client sends "Expect: 100-continue" and waits for the daemon's answer
 * before sending the body, so that a refused request sends no body. For a shorter body the round
 * trip takes longer than the body. */
#define ASK_BYTES (UINT64_C(1024) * 1024)

/* Below this length the pieces of a body are joined, since libcurl sends a body of one piece
 * together with the header. One system call and one packet fewer save more time than the copy
 * takes. */
enum { JOIN_BYTES = 64 * 1024 };

struct gemmd_request *transfer_request(CURL *easy)
{
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer->request;
}

#define SET(option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

/* Writes the URL of an attempt. The URL tells the daemon how long the caller still waits, unless
 * the daemon has refused a deadline of that length. */
static void write_url(struct transfer *transfer, struct gemmd_request *request, uint64_t now_us)
{
    const struct operation *operation = request->operation;
    const char *base = request->client->address.base;
    char shared[SHARED_MEMORY_BASE_MAX];
    if (request->shared_memory.used) {
        shared_memory_base(request, shared);
        base = shared;
    }
    const uint32_t refused_ms = request->client->refused_ms;
    uint64_t left_ms = request->deadline_us > now_us ? (request->deadline_us - now_us) / 1000 : 0;
    if (left_ms > operation->time_max_ms)
        left_ms = operation->time_max_ms;
    request->told_ms = 0;
    snprintf(transfer->url, sizeof transfer->url, "%s%s", base, request->target);
    if (operation->time_parameter == NULL || request->untimed ||
        (refused_ms > 0 && left_ms >= refused_ms))
        return;
    request->told_ms = left_ms > 0 ? (uint32_t)left_ms : 1;
    (void)query_append_u64(transfer->url, sizeof transfer->url, operation->time_parameter,
                           request->told_ms);
}

static struct curl_slist *put_before(struct transfer *transfer, struct curl_slist *list,
                                     const char *name, const char *value)
{
    struct header_line *line = &transfer->own[transfer->own_count++];
    snprintf(line->text, sizeof line->text, "%s: %s", name, value);
    line->node = (struct curl_slist){.data = line->text, .next = list};
    return &line->node;
}

static struct curl_slist *transfer_write_headers(struct transfer *transfer,
                                                 const struct gemmd_request *request)
{
    const struct operation *operation = request->operation;
    bool asks =
        !request->shared_memory.used && (request->body.bytes > ASK_BYTES || request->ask_first);
    enum headers kind = operation->headers;
    if (asks && (kind == HEADERS_SEND || kind == HEADERS_SEND_FOR_TENSORS))
        kind++;
    struct curl_slist *list = request->client->headers[kind];
    transfer->own_count = 0;
    if (request->id[0] != '\0')
        list = put_before(transfer, list, "X-Request-Id", request->id);
    if (request->traceparent[0] != '\0')
        list = put_before(transfer, list, "traceparent", request->traceparent);
    if (request->etag[0] != '\0')
        list = put_before(transfer, list, "If-None-Match", request->etag);
    if (operation->prefers_async)
        list = put_before(transfer, list, "Prefer", "respond-async");
    if (request->shared_memory.used) {
        char locations[MEMORY_HEADER_MAX];
        memory_header_write(&request->shared_memory.locations, locations);
        list = put_before(transfer, list, MEMORY_HEADER, locations);
    }
    return list;
}

/* Returns a small body in one piece. NULL if the body is not small or there is no memory: libcurl
 * then reads the pieces. */
static const char *join_body(struct transfer *transfer, struct body *body)
{
    if (body->bytes >= JOIN_BYTES)
        return NULL;
    if (transfer->joined == NULL)
        transfer->joined = malloc(JOIN_BYTES);
    if (transfer->joined != NULL)
        body_read(body, transfer->joined, JOIN_BYTES);
    return transfer->joined;
}

/* Sets the method of a handle that an earlier request of any method may have used. HTTPGET and POST
 * reset NOBODY, but none of the three options resets a custom method. */
static bool set_method(struct transfer *transfer, struct gemmd_request *request)
{
    CURL *easy = transfer->easy;
    struct body *body = shared_memory_body(request);
    const char *method = request->operation->method;
    bool is_get = strcmp(method, "GET") == 0, is_head = strcmp(method, "HEAD") == 0;
    bool is_post = strcmp(method, "POST") == 0;
    if (!SET(CURLOPT_CUSTOMREQUEST, is_get || is_head || is_post ? NULL : method))
        return false;
    if (is_head)
        return SET(CURLOPT_NOBODY, 1L);
    if (!request->operation->sends)
        return SET(CURLOPT_HTTPGET, 1L);
    return SET(CURLOPT_POST, 1L) && SET(CURLOPT_POSTFIELDS, join_body(transfer, body)) &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->bytes);
}

/* A connection for shared memory begins with the mapping's descriptor. */
static bool set_connecting(struct transfer *transfer, struct gemmd_request *request)
{
    CURL *easy = transfer->easy;
    transfer->opened = -1;
    transfer->issued = 0;
    if (request->shared_memory.used)
        return SET(CURLOPT_OPENSOCKETFUNCTION, shared_memory_open_socket) &&
               SET(CURLOPT_OPENSOCKETDATA, transfer) &&
               SET(CURLOPT_PREREQFUNCTION, shared_memory_before_request) &&
               SET(CURLOPT_PREREQDATA, transfer);
    return SET(CURLOPT_OPENSOCKETFUNCTION, loop_open_socket) &&
           SET(CURLOPT_OPENSOCKETDATA, &request->client->loop) && SET(CURLOPT_PREREQFUNCTION, NULL);
}

static bool set_options(struct transfer *transfer, struct gemmd_request *request, uint64_t now_us)
{
    CURL *easy = transfer->easy;
    write_url(transfer, request, now_us);
    return SET(CURLOPT_URL, transfer->url) &&
           SET(CURLOPT_HTTPHEADER, transfer_write_headers(transfer, request)) &&
           SET(CURLOPT_FRESH_CONNECT, (long)request->fresh) && set_connecting(transfer, request) &&
           set_method(transfer, request);
}

enum gemmd_error transfer_start(struct gemmd_request *request, uint64_t now_us)
{
    struct gemmd_client *client = request->client;
    enum gemmd_error shared = shared_memory_begin(request);
    if (shared != GEMMD_OK)
        return shared;
    bool bulk = !request->shared_memory.used &&
                (request->body.bytes >= BULK_BYTES || request->expected.bytes >= BULK_BYTES);
    struct transfer *transfer = pool_take(client, bulk);
    if (transfer == NULL)
        return outcome_no_memory(request);
    transfer->request = request;
    transfer->accepted = false;
    transfer->refused = GEMMD_OK;
    transfer->curl_error[0] = '\0';
    transfer->document_bytes = 0;
    answer_init(&transfer->answer);
    answer_digest_begin(&transfer->digest);
    body_seek(shared_memory_body(request), 0);
    request->sink.bytes = 0;
    request->sink.kind = SINK_NONE;
    if (!set_options(transfer, request, now_us) ||
        curl_multi_add_handle(client->loop.multi, transfer->easy) != CURLM_OK) {
        pool_give(client, transfer);
        return outcome_no_memory(request);
    }
    request->transfer = transfer;
    return GEMMD_OK;
}

/* Notes how the connection was lost, for the next attempt. */
static void note_loss(struct gemmd_request *request, CURLcode result)
{
    const struct transfer *transfer = request->transfer;
    long connects = 0;
    bool lost =
        result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR || result == CURLE_GOT_NOTHING;
    if (!lost || transfer->answer.status != 0)
        return;
    curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &connects);
    if (connects == 0 && !request->fresh)
        request->stale = true;
    /* The daemon may have refused the request and closed the connection before reading the whole
     * body, and the refusal was then lost. If the client asks before sending the body, the refusal
     * arrives. */
    else if (shared_memory_body(request)->position > 0)
        request->ask_first = true;
}

enum gemmd_error transfer_finish(struct gemmd_request *request, CURLcode result)
{
    struct transfer *transfer = request->transfer;
    curl_multi_remove_handle(request->client->loop.multi, transfer->easy);
    enum gemmd_error code = outcome_of(request, result);
    note_loss(request, result);
    const struct answer *answer = &transfer->answer;
    request->unshared = shared_memory_end(request, answer->complete ? answer->status : 0);
    if (code == GEMMD_OK)
        request->answer = transfer->answer;
    else
        snprintf(request->error.request_id, sizeof request->error.request_id, "%s",
                 transfer->answer.request_id[0] != '\0' ? transfer->answer.request_id
                                                        : request->id);
    request->transfer = NULL;
    pool_give(request->client, transfer);
    return code;
}

void transfer_abort(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    curl_multi_remove_handle(request->client->loop.multi, transfer->easy);
    (void)shared_memory_end(request, 0);
    request->transfer = NULL;
    pool_give(request->client, transfer);
}

uint64_t transfer_moved(const struct gemmd_request *request)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return (uint64_t)sent + request->sink.bytes + request->transfer->document_bytes;
}

bool transfer_should_move(const struct gemmd_request *request)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    const struct body *body =
        request->shared_memory.used ? &request->shared_memory.rest : &request->body;
    return (uint64_t)sent < body->bytes || request->transfer->answer.status >= 200;
}
