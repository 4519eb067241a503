#include "client/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/failure.h"
#include "client/payload.h"
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

/* The buffers of a transfer for large bodies, of the largest sizes that libcurl takes. With
 * libcurl's default buffers (64 KiB for sending, 16 KiB for receiving) large bodies on a fast link
 * are slower by a third to a half. */
#define BULK_UPLOAD_BUFFER (2L * 1024 * 1024)
#define BULK_DOWNLOAD_BUFFER (512L * 1024)

/* The receive buffer of a transfer for small bodies, large enough for a whole small answer. */
#define SMALL_DOWNLOAD_BUFFER (64L * 1024)

#define SET(option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

/* ---- the digest ---- */

static void answer_digest_begin(struct answer_digest *digest)
{
    sha256_init(&digest->hash);
    digest->bytes = 0;
}

static void answer_digest_add(struct answer_digest *digest, const void *data, size_t bytes)
{
    sha256_update(&digest->hash, bytes, data);
    digest->bytes += bytes;
}

/* Compares the digest of the complete content of an answer that is not a failure. An answer without
 * content has no digest. GEMMD_ERR_CONNECTION, which is retriable: the content was changed on its
 * way. GEMMD_ERR_PROTOCOL: the daemon sent no digest. */
static enum gemmd_error answer_digest_check(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    unsigned char found[SHA256_DIGEST_SIZE];
    if (!request->client->options.check_digests || transfer->digest.bytes == 0)
        return GEMMD_OK;
    if (!transfer->answer.has_digest)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer has no Content-Digest; daemons before 0.2 send none");
    sha256_digest(&transfer->digest.hash, sizeof found, found);
    if (memcmp(found, transfer->answer.digest, sizeof found) != 0)
        return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL,
                           "the answer was changed on its way: it has not the digest that the "
                           "daemon sent with it");
    return GEMMD_OK;
}

/* ---- what libcurl calls ---- */

/* Returns whether the exchange's statuses contain `status`, that is, whether an answer with the
 * status is not a failure. */
static bool exchange_takes(const struct exchange *exchange, int status)
{
    for (int i = 0; i < EXCHANGE_STATUSES && exchange->statuses[i] != 0; i++)
        if (exchange->statuses[i] == status)
            return true;
    return false;
}

static size_t callback_read(char *out, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    return body_read(shared_memory_body(transfer->request), out, size * count);
}

static int callback_seek(void *user, curl_off_t offset, int origin)
{
    struct transfer *transfer = user;
    if (origin != SEEK_SET || offset < 0 ||
        !body_seek(shared_memory_body(transfer->request), (uint64_t)offset))
        return CURL_SEEKFUNC_FAIL;
    return CURL_SEEKFUNC_OK;
}

static size_t callback_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    answer_line(&transfer->answer, line, size * count);
    return size * count;
}

/* Calls the exchange's `accept`, once an attempt, to check the header of an answer that is no
 * failure. */
static enum gemmd_error callback_accept(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    if (transfer->accepted || transfer->refused != GEMMD_OK)
        return transfer->refused;
    if (transfer->answer.encoded)
        transfer->refused = failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL,
            "the answer is compressed, although the request did not ask for compression");
    else if (request->exchange->accept != NULL)
        transfer->refused = request->exchange->accept(request, &transfer->answer);
    transfer->accepted = transfer->refused == GEMMD_OK;
    return transfer->refused;
}

static void keep_front(struct transfer *transfer, const char *data, size_t bytes)
{
    size_t room = sizeof transfer->document - transfer->document_bytes;
    size_t part = bytes < room ? bytes : room;
    memcpy(transfer->document + transfer->document_bytes, data, part);
    transfer->document_bytes += part;
}

static size_t callback_write(char *data, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    const struct gemmd_request *request = transfer->request;
    size_t bytes = size * count;
    bool taken = exchange_takes(request->exchange, transfer->answer.status);
    if (request->client->options.check_digests)
        answer_digest_add(&transfer->digest, data, bytes);
    if (taken && callback_accept(transfer) != GEMMD_OK)
        return 0;
    if (taken && request->sink.kind != SINK_NONE)
        return payload_take(transfer, data, bytes) == GEMMD_OK ? bytes : 0;
    keep_front(transfer, data, bytes);
    return bytes;
}

/* ---- outcomes ---- */

static enum gemmd_error outcome_no_memory(struct gemmd_request *request)
{
    return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                       "there is no memory to send the request");
}

static enum gemmd_error outcome_answered_error(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    curl_off_t seconds = 0;
    enum gemmd_error code = failure_from_answer(error, transfer->answer.status, transfer->document,
                                                transfer->document_bytes);
    if (transfer->answer.status == 404 && transfer->document_bytes == 0 &&
        request->exchange->missing != NULL)
        snprintf(error->message, sizeof error->message, "%s", request->exchange->missing);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0)
        error->retry_after_ms = seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
    if (transfer->answer.verify_fail)
        snprintf(error->field, sizeof error->field, "verify");
    return code;
}

static enum gemmd_error outcome_not_connected(struct gemmd_request *request)
{
    long number = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_OS_ERRNO, &number);
    if (number == 0)
        return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s",
                           request->client->address.name);
    errno = (int)number;
    return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s: %m",
                       request->client->address.name);
}

static enum gemmd_error outcome_transport_error(struct gemmd_request *request, CURLcode result)
{
    const struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    const char *name = request->client->address.name;
    const char *text =
        transfer->curl_error[0] != '\0' ? transfer->curl_error : curl_easy_strerror(result);
    switch (result) {
    case CURLE_OUT_OF_MEMORY:
        return outcome_no_memory(request);
    case CURLE_COULDNT_CONNECT:
        return outcome_not_connected(request);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s: %s", name,
                           text);
    case CURLE_OPERATION_TIMEDOUT: /* libcurl's only timeout is that of connecting */
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "there was no connection to %s within %u ms", name,
                           request->client->options.connect_timeout_ms);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        failure_set(error, GEMMD_ERR_CONNECTION, NULL, "%s is not trusted: %s", name, text);
        error->retriable = 0;
        return GEMMD_ERR_CONNECTION;
    case CURLE_SSL_CONNECT_ERROR:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "there is no TLS connection to %s: %s", name, text);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "%s does not speak HTTP/1.1: %s", name,
                           text);
    case CURLE_PARTIAL_FILE:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "the answer of %s ended after %llu of %llu bytes", name,
                           (unsigned long long)request->sink.bytes,
                           (unsigned long long)transfer->answer.length);
    default:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "the connection to %s was lost: %s",
                           name, text);
    }
}

/* Ends an answer that is no failure. */
static enum gemmd_error outcome_completed(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    const struct exchange *exchange = request->exchange;
    if (callback_accept(transfer) != GEMMD_OK)
        return transfer->refused;
    if (transfer->answer.status < 300 && answer_digest_check(transfer) != GEMMD_OK)
        return request->error.code;
    const enum gemmd_error code = payload_end(request);
    if (code != GEMMD_OK)
        return code;
    if (request->sink.kind == SINK_NONE && exchange->conclude != NULL)
        return exchange->conclude(request, &transfer->answer, transfer->document,
                                  transfer->document_bytes);
    return GEMMD_OK;
}

/* Returns GEMMD_OK if the answer is complete and matches the request, else an error code with
 * request->error filled in. */
static enum gemmd_error outcome_of(struct gemmd_request *request, CURLcode result)
{
    struct transfer *transfer = request->transfer;
    const struct answer *answer = &transfer->answer;
    bool taken = exchange_takes(request->exchange, answer->status);
    if (transfer->refused != GEMMD_OK)
        return transfer->refused;
    /* The daemon's answer counts even if the body could not be sent completely after the answer. A
     * 412, which says that the body is not needed, is such an answer too. */
    if (answer->complete && answer->status >= 400)
        return taken ? outcome_completed(request) : outcome_answered_error(request);
    if (result != CURLE_OK)
        return outcome_transport_error(request, result);
    if (!taken)
        return failure_set(
            &request->error, GEMMD_ERR_PROTOCOL, NULL, "%s answered with status %d instead of %d",
            request->client->address.name, answer->status, request->exchange->statuses[0]);
    return outcome_completed(request);
}

/* ---- idle transfers ---- */

static void transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    free(transfer->joined);
    free(transfer);
}

/* Sets the options that stay the same for the life of a handle. */
static bool set_lasting_options(struct transfer *transfer, struct gemmd_client *client)
{
    CURL *easy = transfer->easy;
    const struct address *address = &client->address;
    bool done = SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_PRIVATE, transfer) &&
                SET(CURLOPT_ERRORBUFFER, transfer->curl_error) &&
                SET(CURLOPT_USERAGENT, "libgemmd/" GEMMD_VERSION) &&
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                SET(CURLOPT_PATH_AS_IS, 1L) && SET(CURLOPT_TCP_NODELAY, 1L) &&
                SET(CURLOPT_TCP_KEEPALIVE, 1L) &&
                SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_timeout_ms) &&
                SET(CURLOPT_OPENSOCKETFUNCTION, loop_open_socket) &&
                SET(CURLOPT_OPENSOCKETDATA, &client->loop) &&
                SET(CURLOPT_CLOSESOCKETFUNCTION, loop_close_socket) &&
                SET(CURLOPT_CLOSESOCKETDATA, &client->loop) &&
                SET(CURLOPT_READFUNCTION, callback_read) && SET(CURLOPT_READDATA, transfer) &&
                SET(CURLOPT_SEEKFUNCTION, callback_seek) && SET(CURLOPT_SEEKDATA, transfer) &&
                SET(CURLOPT_HEADERFUNCTION, callback_header) && SET(CURLOPT_HEADERDATA, transfer) &&
                SET(CURLOPT_WRITEFUNCTION, callback_write) && SET(CURLOPT_WRITEDATA, transfer);
    if (done && address->unix_path != NULL)
        done = SET(CURLOPT_UNIX_SOCKET_PATH, address->unix_path) && SET(CURLOPT_PROXY, "");
    if (done && client->ca_file != NULL)
        done = SET(CURLOPT_CAINFO, client->ca_file);
    if (done && client->cert_file != NULL)
        done = SET(CURLOPT_SSLCERT, client->cert_file) &&
               SET(CURLOPT_SSLKEY, client->key_file != NULL ? client->key_file : client->cert_file);
    if (done && transfer->bulk)
        done = SET(CURLOPT_UPLOAD_BUFFERSIZE, BULK_UPLOAD_BUFFER);
    return done &&
           SET(CURLOPT_BUFFERSIZE, transfer->bulk ? BULK_DOWNLOAD_BUFFER : SMALL_DOWNLOAD_BUFFER);
}

static struct transfer *transfer_new(struct gemmd_client *client, bool bulk)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL)
        return NULL;
    transfer->bulk = bulk;
    transfer->easy = curl_easy_init();
    if (transfer->easy == NULL || !set_lasting_options(transfer, client)) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

/* Returns an idle transfer for large (`bulk`) or small bodies, or a new one; NULL if there is no
 * memory. */
static struct transfer *idle_take(struct gemmd_client *client, bool bulk)
{
    struct idle_transfers *idle = &client->idle[bulk];
    struct transfer *transfer = idle->first;
    if (transfer == NULL)
        return transfer_new(client, bulk);
    idle->first = transfer->next;
    idle->count--;
    return transfer;
}

static void idle_give(struct gemmd_client *client, struct transfer *transfer)
{
    struct idle_transfers *idle = &client->idle[transfer->bulk];
    transfer->request = NULL;
    if (idle->count == (transfer->bulk ? TRANSFER_BULK_MAX : TRANSFER_SMALL_MAX)) {
        transfer_free(transfer);
        return;
    }
    transfer->next = idle->first;
    idle->first = transfer;
    idle->count++;
}

void transfer_free_idle(struct gemmd_client *client)
{
    for (int bulk = 0; bulk < 2; bulk++) {
        struct transfer *next;
        for (struct transfer *idle = client->idle[bulk].first; idle != NULL; idle = next) {
            next = idle->next;
            transfer_free(idle);
        }
        client->idle[bulk] = (struct idle_transfers){0};
    }
}

/* ---- attempts ---- */

struct gemmd_request *transfer_request(CURL *easy)
{
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer->request;
}

/* Writes the URL of an attempt. The URL tells the daemon how long the caller still waits, unless
 * the daemon has refused a deadline of that length. */
static void write_url(struct transfer *transfer, struct gemmd_request *request, uint64_t now_us)
{
    const struct exchange *exchange = request->exchange;
    const char *base = request->client->address.base;
    char shared[SHARED_MEMORY_BASE_MAX];
    if (request->shared_memory.used) {
        shared_memory_base(request, shared);
        base = shared;
    }
    const uint32_t refused_ms = request->client->refused_ms;
    uint64_t left_ms = request->deadline_us > now_us ? (request->deadline_us - now_us) / 1000 : 0;
    if (left_ms > exchange->time_max_ms)
        left_ms = exchange->time_max_ms;
    request->told_ms = 0;
    snprintf(transfer->url, sizeof transfer->url, "%s%s", base, request->target);
    if (exchange->time_parameter == NULL || request->untimed ||
        (refused_ms > 0 && left_ms >= refused_ms))
        return;
    request->told_ms = left_ms > 0 ? (uint32_t)left_ms : 1;
    (void)query_append_u64(transfer->url, sizeof transfer->url, exchange->time_parameter,
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
    const struct exchange *exchange = request->exchange;
    bool asks =
        !request->shared_memory.used && (request->body.bytes > ASK_BYTES || request->ask_first);
    enum headers kind = exchange->headers;
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
    if (exchange->prefers_async)
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
    const char *method = request->exchange->method;
    bool is_get = strcmp(method, "GET") == 0, is_head = strcmp(method, "HEAD") == 0;
    bool is_post = strcmp(method, "POST") == 0;
    if (!SET(CURLOPT_CUSTOMREQUEST, is_get || is_head || is_post ? NULL : method))
        return false;
    if (is_head)
        return SET(CURLOPT_NOBODY, 1L);
    if (!request->exchange->sends)
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
    struct transfer *transfer = idle_take(client, bulk);
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
        idle_give(client, transfer);
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
    idle_give(request->client, transfer);
    return code;
}

void transfer_abort(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    curl_multi_remove_handle(request->client->loop.multi, transfer->easy);
    (void)shared_memory_end(request, 0);
    request->transfer = NULL;
    idle_give(request->client, transfer);
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
