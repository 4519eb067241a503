#include "client/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/failure.h"

/* libcurl's default buffers (64 KiB up, 16 KiB down) cost a third to a half of the speed of large
 * bodies on a fast link. These are the largest it takes. */
#define BULK_UPLOAD_BUFFER (2L * 1024 * 1024)
#define BULK_DOWNLOAD_BUFFER (512L * 1024)
#define BULK_BYTES (UINT64_C(256) * 1024)

/* From here on the daemon is asked before the body is sent, so that a refusal costs nothing. Below,
 * the round trip costs more than the body. */
#define ASK_BYTES (UINT64_C(1024) * 1024)

#define TEXT_MAX (UINT64_C(64) * 1024 * 1024)

enum { IDLE_BULK_MAX = 8, TIMEOUT_MS_MAX = 2147483647 };

struct transfer {
    struct transfer *next; /* in a list of idle ones */
    CURL *easy;
    bool bulk;
    struct gemmd_request *request; /* NULL while idle */
    struct answer answer;
    bool accepted;            /* request->accept agreed */
    enum gemmd_error refused; /* or this is what it said */
    struct curl_slist id;     /* a header line in front of the client's */
    char id_line[96];
    char url[ENDPOINT_URL_MAX + REQUEST_TARGET_MAX + 64];
    char curl_error[CURL_ERROR_SIZE];
    char problem[4096]; /* the front of the body of an answer that is an error */
    size_t problem_bytes;
};

static size_t on_read(char *out, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    return body_read(&transfer->request->body, out, size * count);
}

static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct transfer *transfer = user;
    if (origin != SEEK_SET || offset < 0 || !body_seek(&transfer->request->body, (uint64_t)offset))
        return CURL_SEEKFUNC_FAIL;
    return CURL_SEEKFUNC_OK;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    answer_line(&transfer->answer, line, size * count);
    return size * count;
}

static enum gemmd_error accept_answer(struct transfer *transfer)
{
    struct gemmd_request *request = transfer->request;
    if (transfer->accepted || transfer->refused != GEMMD_OK)
        return transfer->refused;
    if (transfer->answer.encoded)
        transfer->refused = failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                                        "the answer is compressed, which was not asked for");
    else if (request->accept != NULL)
        transfer->refused = request->accept(request, &transfer->answer);
    transfer->accepted = transfer->refused == GEMMD_OK;
    return transfer->refused;
}

/* Makes room for `more` bytes of a text and the zero at its end. */
static enum gemmd_error grow_text(struct gemmd_request *request, uint64_t more)
{
    struct sink *sink = &request->sink;
    uint64_t needed = sink->bytes + more + 1;
    if (needed <= sink->room)
        return GEMMD_OK;
    if (needed > TEXT_MAX)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer is longer than %llu bytes", (unsigned long long)TEXT_MAX);
    uint64_t room = needed < 4096 ? 4096 : needed * 2;
    char *data = realloc(sink->data, room);
    if (data == NULL)
        return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                           "no memory for an answer of %llu bytes", (unsigned long long)needed);
    sink->data = data;
    sink->room = room;
    sink->owned = true;
    return GEMMD_OK;
}

static enum gemmd_error take_payload(struct transfer *transfer, const char *data, size_t bytes)
{
    struct gemmd_request *request = transfer->request;
    struct sink *sink = &request->sink;
    if (accept_answer(transfer) != GEMMD_OK)
        return transfer->refused;
    if (sink->text)
        transfer->refused = grow_text(request, bytes);
    else if (bytes > sink->room - sink->bytes)
        transfer->refused =
            failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                        "the answer is longer than the %llu bytes that the result has",
                        (unsigned long long)sink->room);
    if (transfer->refused != GEMMD_OK)
        return transfer->refused;
    memcpy(sink->data + sink->bytes, data, bytes);
    sink->bytes += bytes;
    return GEMMD_OK;
}

static size_t on_write(char *data, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    size_t bytes = size * count;
    if (transfer->answer.status == 200)
        return take_payload(transfer, data, bytes) == GEMMD_OK ? bytes : 0;
    size_t room = sizeof transfer->problem - transfer->problem_bytes;
    size_t part = bytes < room ? bytes : room;
    memcpy(transfer->problem + transfer->problem_bytes, data, part);
    transfer->problem_bytes += part;
    return bytes;
}

static void transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    free(transfer);
}

#define SET(option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

/* What stays for the life of a handle. */
static bool configure(struct transfer *transfer, const struct gemmd_client *client)
{
    CURL *easy = transfer->easy;
    const struct endpoint *endpoint = &client->endpoint;
    bool done = SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_PRIVATE, transfer) &&
                SET(CURLOPT_ERRORBUFFER, transfer->curl_error) &&
                SET(CURLOPT_USERAGENT, "libgemmd/" GEMMD_VERSION) &&
                SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                SET(CURLOPT_TCP_NODELAY, 1L) && SET(CURLOPT_TCP_KEEPALIVE, 1L) &&
                SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_timeout_ms) &&
                SET(CURLOPT_READFUNCTION, on_read) && SET(CURLOPT_READDATA, transfer) &&
                SET(CURLOPT_SEEKFUNCTION, on_seek) && SET(CURLOPT_SEEKDATA, transfer) &&
                SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, transfer) &&
                SET(CURLOPT_WRITEFUNCTION, on_write) && SET(CURLOPT_WRITEDATA, transfer);
    if (done && endpoint->unix_path != NULL)
        done = SET(CURLOPT_UNIX_SOCKET_PATH, endpoint->unix_path) && SET(CURLOPT_PROXY, "");
    if (done && client->ca_file != NULL)
        done = SET(CURLOPT_CAINFO, client->ca_file);
    if (done && transfer->bulk)
        done = SET(CURLOPT_UPLOAD_BUFFERSIZE, BULK_UPLOAD_BUFFER) &&
               SET(CURLOPT_BUFFERSIZE, BULK_DOWNLOAD_BUFFER);
    return done;
}

static struct transfer *transfer_new(const struct gemmd_client *client, bool bulk)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL)
        return NULL;
    transfer->bulk = bulk;
    transfer->easy = curl_easy_init();
    if (transfer->easy == NULL || !configure(transfer, client)) {
        transfer_free(transfer);
        return NULL;
    }
    return transfer;
}

static struct transfer *take_idle(struct gemmd_client *client, bool bulk)
{
    struct transfer **list = bulk ? &client->idle_bulk : &client->idle;
    struct transfer *transfer = *list;
    if (transfer == NULL)
        return transfer_new(client, bulk);
    *list = transfer->next;
    client->idle_bulk_count -= bulk;
    return transfer;
}

static void give_back(struct gemmd_client *client, struct transfer *transfer)
{
    struct transfer **list = transfer->bulk ? &client->idle_bulk : &client->idle;
    transfer->request = NULL;
    if (transfer->bulk && client->idle_bulk_count == IDLE_BULK_MAX) {
        transfer_free(transfer);
        return;
    }
    client->idle_bulk_count += transfer->bulk;
    transfer->next = *list;
    *list = transfer;
}

static void free_list(struct transfer *transfer)
{
    while (transfer != NULL) {
        struct transfer *next = transfer->next;
        transfer_free(transfer);
        transfer = next;
    }
}

void transfer_free_idle(struct gemmd_client *client)
{
    free_list(client->idle);
    free_list(client->idle_bulk);
    client->idle = client->idle_bulk = NULL;
}

/* The daemon is told how long the caller still waits. */
static void write_url(struct transfer *transfer, const struct gemmd_request *request,
                      uint64_t now_us)
{
    const char *base = request->client->endpoint.base;
    if (request->method == REQUEST_GET) {
        snprintf(transfer->url, sizeof transfer->url, "%s%s", base, request->target);
        return;
    }
    uint64_t left_ms = request->deadline_us > now_us ? (request->deadline_us - now_us) / 1000 : 0;
    if (left_ms > TIMEOUT_MS_MAX)
        left_ms = TIMEOUT_MS_MAX;
    snprintf(transfer->url, sizeof transfer->url, "%s%s&timeout_ms=%llu", base, request->target,
             (unsigned long long)(left_ms > 0 ? left_ms : 1));
}

static struct curl_slist *write_headers(struct transfer *transfer,
                                        const struct gemmd_request *request)
{
    const struct gemmd_client *client = request->client;
    bool asks = request->body.bytes > ASK_BYTES || request->ask_first;
    struct curl_slist *list = request->method == REQUEST_GET ? client->headers_get
                              : asks                         ? client->headers_ask
                                                             : client->headers_send;
    if (request->id[0] == '\0')
        return list;
    snprintf(transfer->id_line, sizeof transfer->id_line, "X-Request-Id: %s", request->id);
    transfer->id = (struct curl_slist){.data = transfer->id_line, .next = list};
    return &transfer->id;
}

static bool prepare(struct transfer *transfer, struct gemmd_request *request, uint64_t now_us)
{
    CURL *easy = transfer->easy;
    write_url(transfer, request, now_us);
    if (!SET(CURLOPT_URL, transfer->url) ||
        !SET(CURLOPT_HTTPHEADER, write_headers(transfer, request)) ||
        !SET(CURLOPT_FRESH_CONNECT, (long)request->fresh))
        return false;
    if (request->method == REQUEST_GET)
        return SET(CURLOPT_HTTPGET, 1L);
    return SET(CURLOPT_POST, 1L) &&
           SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.bytes);
}

static enum gemmd_error no_memory(struct gemmd_request *request)
{
    return failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                       "no memory to send the request");
}

enum gemmd_error transfer_start(struct gemmd_request *request, uint64_t now_us)
{
    struct gemmd_client *client = request->client;
    bool bulk = request->body.bytes >= BULK_BYTES || request->expected.bytes >= BULK_BYTES;
    struct transfer *transfer = take_idle(client, bulk);
    if (transfer == NULL)
        return no_memory(request);
    transfer->request = request;
    transfer->accepted = false;
    transfer->refused = GEMMD_OK;
    transfer->curl_error[0] = '\0';
    transfer->problem_bytes = 0;
    answer_init(&transfer->answer);
    body_seek(&request->body, 0);
    request->sink.bytes = 0;
    if (!prepare(transfer, request, now_us) ||
        curl_multi_add_handle(client->loop.multi, transfer->easy) != CURLM_OK) {
        give_back(client, transfer);
        return no_memory(request);
    }
    request->transfer = transfer;
    return GEMMD_OK;
}

struct gemmd_request *transfer_request(CURL *easy)
{
    struct transfer *transfer = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return transfer->request;
}

static enum gemmd_error answered_error(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    curl_off_t seconds = 0;
    enum gemmd_error code = failure_from_answer(error, transfer->answer.status, transfer->problem,
                                                transfer->problem_bytes);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
    if (seconds > 0)
        error->retry_after_ms = seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
    if (transfer->answer.verify_fail)
        snprintf(error->field, sizeof error->field, "verify");
    return code;
}

static enum gemmd_error not_connected(struct gemmd_request *request)
{
    long number = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_OS_ERRNO, &number);
    const char *reason = number != 0 ? strerrordesc_np((int)number) : NULL;
    return failure_set(&request->error, GEMMD_ERR_CONNECTION, NULL, "no daemon answers at %s%s%s",
                       request->client->endpoint.name, reason != NULL ? ": " : "",
                       reason != NULL ? reason : "");
}

static enum gemmd_error transport_error(struct gemmd_request *request, CURLcode result)
{
    const struct transfer *transfer = request->transfer;
    struct gemmd_error_info *error = &request->error;
    const char *name = request->client->endpoint.name;
    const char *text =
        transfer->curl_error[0] != '\0' ? transfer->curl_error : curl_easy_strerror(result);
    switch (result) {
    case CURLE_OUT_OF_MEMORY:
        return no_memory(request);
    case CURLE_COULDNT_CONNECT:
        return not_connected(request);
    case CURLE_OPERATION_TIMEDOUT: /* no other time is libcurl's to watch */
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "no connection to %s within %u ms",
                           name, request->client->options.connect_timeout_ms);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        failure_set(error, GEMMD_ERR_CONNECTION, NULL, "%s is not trusted: %s", name, text);
        error->retriable = 0;
        return GEMMD_ERR_CONNECTION;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL, "%s does not speak HTTP/1.1: %s", name,
                           text);
    case CURLE_PARTIAL_FILE:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL,
                           "the answer of %s broke off after %llu of %llu bytes", name,
                           (unsigned long long)request->sink.bytes,
                           (unsigned long long)transfer->answer.length);
    default:
        return failure_set(error, GEMMD_ERR_CONNECTION, NULL, "the connection to %s broke: %s",
                           name, text);
    }
}

static enum gemmd_error judge(struct gemmd_request *request, CURLcode result)
{
    struct transfer *transfer = request->transfer;
    const struct answer *answer = &transfer->answer;
    struct gemmd_error_info *error = &request->error;
    if (transfer->refused != GEMMD_OK)
        return transfer->refused;
    /* A refusal counts even if sending the body failed after it, or because of it. */
    if (answer->complete && answer->status >= 400)
        return answered_error(request);
    if (result != CURLE_OK)
        return transport_error(request, result);
    if (answer->status != 200)
        return failure_set(error, GEMMD_ERR_PROTOCOL, NULL,
                           "%s answered with status %d where 200 was due",
                           request->client->endpoint.name, answer->status);
    if (accept_answer(transfer) != GEMMD_OK)
        return transfer->refused;
    if (request->sink.text) {
        enum gemmd_error code = grow_text(request, 0);
        if (code == GEMMD_OK)
            request->sink.data[request->sink.bytes] = '\0';
        return code;
    }
    if (request->sink.bytes != request->expected.bytes)
        return failure_set(
            error, GEMMD_ERR_PROTOCOL, NULL, "the answer has %llu bytes where the result has %llu",
            (unsigned long long)request->sink.bytes, (unsigned long long)request->expected.bytes);
    return GEMMD_OK;
}

/* What the next attempt should know about how this one was lost. */
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
    /* The daemon may have refused and closed, and the refusal was lost with what it had not read.
     * Asked before the body, it is heard. */
    else if (request->body.position > 0)
        request->ask_first = true;
}

enum gemmd_error transfer_finish(struct gemmd_request *request, CURLcode result)
{
    struct transfer *transfer = request->transfer;
    curl_multi_remove_handle(request->client->loop.multi, transfer->easy);
    enum gemmd_error code = judge(request, result);
    note_loss(request, result);
    if (code == GEMMD_OK)
        request->answer = transfer->answer;
    else
        snprintf(request->error.request_id, sizeof request->error.request_id, "%s",
                 transfer->answer.request_id[0] != '\0' ? transfer->answer.request_id
                                                        : request->id);
    request->transfer = NULL;
    give_back(request->client, transfer);
    return code;
}

void transfer_abort(struct gemmd_request *request)
{
    struct transfer *transfer = request->transfer;
    curl_multi_remove_handle(request->client->loop.multi, transfer->easy);
    request->transfer = NULL;
    give_back(request->client, transfer);
}

uint64_t transfer_moved(const struct gemmd_request *request)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return (uint64_t)sent + request->sink.bytes + request->transfer->problem_bytes;
}

bool transfer_should_move(const struct gemmd_request *request)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(request->transfer->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    return (uint64_t)sent < request->body.bytes || request->transfer->answer.status >= 200;
}
