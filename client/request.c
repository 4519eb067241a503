#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/failure.h"
#include "client/record.h"
#include "client/schedule.h"
#include "client/transfer.h"

struct gemmd_request *request_new(struct gemmd_client *client, enum request_method method,
                                  uint32_t timeout_ms, struct gemmd_error_info *error)
{
    struct gemmd_request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        failure_set(error, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a request");
        return NULL;
    }
    uint32_t total_ms = client->options.total_timeout_ms;
    if (timeout_ms == 0 || timeout_ms > total_ms)
        timeout_ms = total_ms;
    request->client = client;
    request->state = REQUEST_DONE;
    request->reported = true;
    request->method = method;
    request->repeats_left = client->options.retries;
    request->submitted_us = loop_now_us();
    request->deadline_us = request->submitted_us + (uint64_t)timeout_ms * 1000;
    TAILQ_INSERT_TAIL(&client->requests, request, of_client);
    return request;
}

/* When a wait of `timeout_ms` ends. */
static uint64_t wait_until(int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return LOOP_NEVER;
    uint64_t now = loop_now_us();
    uint64_t most_ms = (LOOP_NEVER - 1 - now) / 1000;
    return now + ((uint64_t)timeout_ms < most_ms ? (uint64_t)timeout_ms : most_ms) * 1000;
}

static void report(struct gemmd_request *request)
{
    if (request->reported)
        return;
    request->reported = true;
    TAILQ_REMOVE(&request->client->done, request, of_state);
}

int gemmd_wait(struct gemmd_request *request, int64_t timeout_ms)
{
    uint64_t until = wait_until(timeout_ms);
    bool over = false;
    while (request->state != REQUEST_DONE && !over) {
        over = until <= loop_now_us();
        schedule_turn(request->client, until);
    }
    if (request->state != REQUEST_DONE)
        return 0;
    report(request);
    return 1;
}

struct gemmd_request *gemmd_wait_any(struct gemmd_client *client, int64_t timeout_ms)
{
    uint64_t until = wait_until(timeout_ms);
    bool over = false;
    while (TAILQ_EMPTY(&client->done) && gemmd_in_flight(client) > 0 && !over) {
        over = until <= loop_now_us();
        schedule_turn(client, until);
    }
    struct gemmd_request *request = TAILQ_FIRST(&client->done);
    if (request != NULL)
        report(request);
    return request;
}

uint32_t gemmd_in_flight(const struct gemmd_client *client)
{
    return client->queued_count + client->running_count;
}

void gemmd_cancel(struct gemmd_request *request)
{
    if (request->state == REQUEST_DONE)
        return;
    failure_set(&request->error, GEMMD_ERR_CANCELLED, NULL, "cancelled by the caller");
    schedule_abort(request);
}

static void fill_result(struct gemmd_request *request, struct gemmd_result *out)
{
    const struct answer *answer = &request->answer;
    struct gemmd_result result = {
        .data = request->sink.data,
        .bytes = request->sink.bytes,
        .dtype = answer->dtype,
        .rank = answer->rank,
        .batch = answer->batch,
        .attempts = request->attempts,
        .residual = answer->residual,
        .verified = answer->verify_pass,
        .timing = answer->timing,
        .elapsed_ms = (double)(request->done_us - request->submitted_us) / 1000,
    };
    _Static_assert(sizeof result.dims == sizeof answer->dims, "one rank");
    _Static_assert(sizeof result.kernel == sizeof answer->kernel, "one length of names");
    _Static_assert(sizeof result.request_id == sizeof answer->request_id, "one length of ids");
    memcpy(result.dims, answer->dims, answer->rank * sizeof answer->dims[0]);
    memcpy(result.kernel, answer->kernel, sizeof result.kernel);
    memcpy(result.request_id, answer->request_id, sizeof result.request_id);
    record_write(out, out->size, &result, sizeof result);
    request->sink.owned = false;
}

enum gemmd_error gemmd_request_result(struct gemmd_request *request, struct gemmd_result *result,
                                      struct gemmd_error_info *error)
{
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
        .sent = request->body.position,
        .to_send = request->body.bytes,
        .received = request->sink.bytes,
        .to_receive = request->expected.bytes,
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
    report(request);
    TAILQ_REMOVE(&request->client->requests, request, of_client);
    if (request->sink.owned)
        free(request->sink.data);
    free(request);
}
