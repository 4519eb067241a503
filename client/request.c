#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/process.h"
#include "client/record.h"
#include "client/schedule.h"
#include "proto/size.h"

static bool is_field(const char *digits, size_t length, bool may_be_zero)
{
    return strspn(digits, "0123456789abcdef") == length &&
           (may_be_zero || strspn(digits, "0") < length);
}

bool traceparent_is_valid(const char *text)
{
    return strlen(text) == TRACEPARENT_LENGTH && memcmp(text, "00-", 3) == 0 &&
           is_field(text + 3, 32, false) && text[35] == '-' && is_field(text + 36, 16, false) &&
           text[52] == '-' && is_field(text + 53, 2, true);
}

/* A request id becomes the value of a header line. */
static bool is_request_id(const char *id)
{
    size_t length = 0;
    while (id[length] > ' ' && id[length] < 0x7f)
        length++;
    return id[length] == '\0' && length > 0 && length < sizeof((struct gemmd_request *)0)->id;
}

bool request_call(struct gemmd_call *call, const struct gemmd_call *given,
                  struct gemmd_error_info *error)
{
    *call = (struct gemmd_call){0};
    return given == NULL || record_read(call, sizeof *call, given, GEMMD_CALL_SIZE_0_1, "call",
                                        "call", error) == GEMMD_OK;
}

struct gemmd_request *request_new(struct gemmd_client *client, const struct exchange *exchange,
                                  const struct gemmd_call *call, struct gemmd_error_info *error)
{
    if (call->request_id != NULL && !is_request_id(call->request_id)) {
        failure_set(error, GEMMD_ERR_USAGE, "request_id",
                    "a request id is 1 to 63 visible ASCII characters");
        return NULL;
    }
    if (call->traceparent != NULL && !traceparent_is_valid(call->traceparent)) {
        failure_set(error, GEMMD_ERR_USAGE, "traceparent", TRACEPARENT_FORM);
        return NULL;
    }
    struct gemmd_request *request = process_enter(client) ? calloc(1, sizeof *request) : NULL;
    if (request == NULL) {
        failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "there is no memory for a request");
        return NULL;
    }
    uint32_t timeout_ms = client->options.total_timeout_ms;
    if (call->timeout_ms != 0 && call->timeout_ms < timeout_ms)
        timeout_ms = call->timeout_ms;
    request->client = client;
    request->state = REQUEST_DONE;
    request->reported = true;
    request->exchange = exchange;
    request->repeats_left = client->options.retries;
    request->submitted_us = loop_now_us();
    request->deadline_us = request->submitted_us + (uint64_t)timeout_ms * 1000;
    if (call->request_id != NULL)
        memcpy(request->id, call->request_id, strlen(call->request_id) + 1);
    memcpy(request->traceparent,
           call->traceparent != NULL ? call->traceparent : client->traceparent,
           call->traceparent != NULL ? strlen(call->traceparent) + 1 : sizeof client->traceparent);
    request->sink.data = (struct answer_buffer){.data = call->data, .room = call->bytes};
    request->user = call->user;
    TAILQ_INSERT_TAIL(&client->requests, request, of_client);
    return request;
}

enum gemmd_error request_finish(struct gemmd_request *request, struct gemmd_result *result,
                                struct gemmd_error_info *error)
{
    if (request == NULL)
        return error->code;
    gemmd_wait(request, -1);
    enum gemmd_error code = gemmd_request_result(request, result, error);
    gemmd_request_free(request);
    return code;
}

/* Returns the time at which a wait of `timeout_ms` ends. */
static uint64_t wait_until(int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return LOOP_NEVER;
    uint64_t now = loop_now_us();
    uint64_t most_ms = (LOOP_NEVER - 1 - now) / 1000;
    return now + ((uint64_t)timeout_ms < most_ms ? (uint64_t)timeout_ms : most_ms) * 1000;
}

static void report_request(struct gemmd_request *request)
{
    if (!request->reported)
        schedule_report(request);
}

int gemmd_wait(struct gemmd_request *request, int64_t timeout_ms)
{
    uint64_t until = wait_until(timeout_ms);
    bool over = false;
    (void)process_enter(request->client);
    while (request->state != REQUEST_DONE && !over) {
        over = until <= loop_now_us();
        schedule_turn(request->client, until);
    }
    if (request->state != REQUEST_DONE)
        return 0;
    report_request(request);
    return 1;
}

struct gemmd_request *gemmd_wait_any(struct gemmd_client *client, int64_t timeout_ms)
{
    uint64_t until = wait_until(timeout_ms);
    bool over = false;
    (void)process_enter(client);
    while (TAILQ_EMPTY(&client->done) && gemmd_in_flight(client) > 0 && !over) {
        over = until <= loop_now_us();
        schedule_turn(client, until);
    }
    struct gemmd_request *request = TAILQ_FIRST(&client->done);
    if (request != NULL)
        report_request(request);
    return request;
}

uint32_t gemmd_advance(struct gemmd_client *client, int64_t timeout_ms)
{
    (void)process_enter(client);
    uint64_t until = wait_until(timeout_ms), done_before = client->done_count;
    bool over = gemmd_in_flight(client) == 0;
    if (over) /* call the callbacks that are due, and do not wait */
        until = 0;
    do {
        over = over || until <= loop_now_us();
        schedule_turn(client, until);
    } while (client->done_count == done_before && gemmd_in_flight(client) > 0 && !over);
    return gemmd_in_flight(client);
}

void gemmd_on_done(struct gemmd_request *request, gemmd_done_function call)
{
    (void)process_enter(request->client);
    schedule_call(request, call);
}

int gemmd_fd(struct gemmd_client *client)
{
    return process_enter(client) ? schedule_watch(client) : -1;
}

uint32_t gemmd_in_flight(const struct gemmd_client *client)
{
    return client->forks == process_forks() ? client->queued_count + client->running_count : 0;
}

void gemmd_cancel(struct gemmd_request *request)
{
    (void)process_enter(request->client);
    if (request->state == REQUEST_DONE)
        return;
    failure_set(&request->error, GEMMD_ERR_CANCELLED, NULL, "the caller cancelled the request");
    schedule_cancel(request);
}

static bool has_data(const struct sink *sink)
{
    return sink->kind == SINK_DATA || sink->kind == SINK_TENSORS;
}

/* Returns the tensor that an answer, which is a safetensors file, has for a buffer of the sink, and
 * the tensor's length; NULL: the answer has no such tensor. */
static float *unpacked_of(const struct sink *sink, const struct answer_buffer *buffer,
                          uint64_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < sizeof sink->parts / sizeof sink->parts[0]; i++) {
        if (sink->kind != SINK_TENSORS || buffer->data == NULL ||
            sink->parts[i].data != buffer->data)
            continue;
        *bytes = sink->parts[i].bytes;
        return (float *)(void *)buffer->data;
    }
    return NULL;
}

static void fill_result(struct gemmd_request *request, struct gemmd_result *out)
{
    const struct answer *answer = &request->answer;
    struct sink *sink = &request->sink;
    /* An older caller's structure ends before the member lse, or scale. The request then keeps the
     * tensor and frees the tensor. */
    const bool knows_lse =
        out->size >= offsetof(struct gemmd_result, lse_bytes) + sizeof out->lse_bytes;
    const bool knows_scale =
        out->size >= offsetof(struct gemmd_result, scale_dims) + sizeof out->scale_dims;
    /* The bytes of a file of packed weights are those that were sent or received. */
    uint64_t bytes = request->exchange->sends && answer->dtype == GEMMD_DTYPE_COUNT
                         ? request->body.bytes
                         : request->expected.bytes;
    if (answer->rank > 0 && answer->dtype != GEMMD_DTYPE_COUNT)
        (void)size_tensor_bytes(answer->dtype, answer->dims, answer->rank, &bytes);
    struct gemmd_result result = {
        .data = has_data(sink) ? sink->data.data : NULL,
        .bytes = bytes,
        .dtype = answer->dtype,
        .rank = answer->rank,
        .batch = answer->batch,
        .attempts = request->attempts,
        .residual = answer->residual,
        .verified = answer->verify_pass,
        .put = answer->put,
        .timing = answer->timing,
        .elapsed_ms = (double)(request->done_us - request->submitted_us) / 1000,
    };
    result.shared = request->shared_memory.used;
    result.lse = unpacked_of(sink, &sink->lse, &result.lse_bytes);
    if (result.lse != NULL) {
        result.lse_rank = sink->lse_rank;
        memcpy(result.lse_dims, sink->lse_dims, sizeof result.lse_dims);
    }
    if (knows_scale)
        result.scale = unpacked_of(sink, &sink->scale, &result.scale_bytes);
    if (result.scale != NULL) {
        result.scale_rank = sink->scale_rank;
        memcpy(result.scale_dims, sink->scale_dims, sizeof result.scale_dims);
    }
    _Static_assert(sizeof result.dims == sizeof answer->dims, "one rank");
    _Static_assert(sizeof result.scale_dims == sizeof sink->scale_dims, "one rank");
    _Static_assert(sizeof result.lse_dims == sizeof sink->lse_dims, "one rank");
    _Static_assert(sizeof result.kernel == sizeof answer->kernel, "one length of names");
    _Static_assert(sizeof result.etag == sizeof answer->etag, "one length of etags");
    _Static_assert(sizeof result.job == sizeof answer->job, "one length of job ids");
    _Static_assert(sizeof result.request_id == sizeof answer->request_id, "one length of ids");
    memcpy(result.dims, answer->dims, answer->rank * sizeof answer->dims[0]);
    _Static_assert(sizeof result.type == sizeof answer->type, "one length of types");
    memcpy(result.kernel, answer->kernel, sizeof result.kernel);
    memcpy(result.type, answer->type, sizeof result.type);
    memcpy(result.request_id, answer->request_id, sizeof result.request_id);
    memcpy(result.etag, answer->etag, sizeof result.etag);
    if (answer->status == 202)
        memcpy(result.job, answer->job, sizeof result.job);
    record_write(out, out->size, &result, sizeof result);
    if (result.data != NULL)
        sink->data.owned = false;
    if (result.lse != NULL && knows_lse)
        sink->lse.owned = false;
    if (result.scale != NULL)
        sink->scale.owned = false;
}

enum gemmd_error gemmd_request_result(struct gemmd_request *request, struct gemmd_result *result,
                                      struct gemmd_error_info *error)
{
    (void)process_enter(request->client);
    if (request->state != REQUEST_DONE)
        return failure_set(error, GEMMD_ERR_CONFLICT, NULL, "the request is not done yet");
    if (error != NULL)
        *error = request->error;
    if (request->error.code == GEMMD_OK && result != NULL)
        fill_result(request, result);
    return request->error.code;
}

void gemmd_request_progress(const struct gemmd_request *request, struct gemmd_progress *progress)
{
    *progress = (struct gemmd_progress){
        .sent = request->shared_memory.used ? request->body.bytes : request->body.position,
        .to_send = request->body.bytes,
        .received = request->sink.bytes,
        .to_receive = request->expected.bytes + request->expected.lse_bytes,
        .attempts = request->attempts,
    };
}

void *gemmd_request_user(const struct gemmd_request *request)
{
    return request->user;
}

void gemmd_request_free(struct gemmd_request *request)
{
    if (request == NULL)
        return;
    gemmd_cancel(request);
    report_request(request);
    TAILQ_REMOVE(&request->client->requests, request, of_client);
    if (request->sink.data.owned)
        free(request->sink.data.data);
    if (request->sink.lse.owned)
        free(request->sink.lse.data);
    if (request->sink.scale.owned)
        free(request->sink.scale.data);
    free(request->body_front);
    free(request->sequence);
    free(request);
}
