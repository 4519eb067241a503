#include "client/schedule.h"

#include <string.h>

#include "client/backoff.h"
#include "client/failure.h"
#include "client/transfer.h"

/* A stall is looked for this often within the time it takes. */
enum { STALL_CHECKS = 4 };

/* How often the same job is asked for at the most. */
enum { ASK_AGAIN_US = 1000000 };

static void check_by(struct gemmd_client *client, uint64_t time_us)
{
    if (time_us < client->check_us)
        client->check_us = time_us;
}

static uint64_t stall_us(const struct gemmd_client *client)
{
    return (uint64_t)client->options.stall_timeout_ms * 1000;
}

static void leave_list(struct gemmd_request *request)
{
    struct gemmd_client *client = request->client;
    if (request->state == REQUEST_QUEUED) {
        TAILQ_REMOVE(&client->queued, request, of_state);
        client->queued_count--;
    } else {
        TAILQ_REMOVE(&client->running, request, of_state);
        client->running_count--;
    }
}

/* Where a request that is done waits for its caller to hear of it. */
static struct request_list *list_of_done(struct gemmd_request *request)
{
    return request->on_done != NULL ? &request->client->calls : &request->client->done;
}

static void finish_request(struct gemmd_request *request)
{
    leave_list(request);
    shared_memory_release(request);
    request->state = REQUEST_DONE;
    request->done_us = loop_now_us();
    request->error.attempts = request->attempts;
    TAILQ_INSERT_TAIL(list_of_done(request), request, of_state);
    request->client->done_count++;
}

void schedule_report(struct gemmd_request *request)
{
    TAILQ_REMOVE(list_of_done(request), request, of_state);
    request->reported = true;
}

/* Those that are due now; a callback may make others due, or end some of these. */
static void call_back(struct gemmd_client *client)
{
    struct gemmd_request *request;
    uint32_t count = 0;
    TAILQ_FOREACH(request, &client->calls, of_state)
    count++;
    for (; count > 0 && (request = TAILQ_FIRST(&client->calls)) != NULL; count--) {
        schedule_report(request);
        request->on_done(request, request->user);
    }
}

/* Tells who watches from outside when the next turn is due. */
static void arm_timer(struct gemmd_client *client, bool at_once)
{
    uint64_t due =
        client->check_us < client->loop.timer_us ? client->check_us : client->loop.timer_us;
    loop_arm(&client->loop, at_once || !TAILQ_EMPTY(&client->calls) ? 0 : due);
}

int schedule_watch(struct gemmd_client *client)
{
    int fd = loop_watch(&client->loop);
    if (fd >= 0)
        arm_timer(client, true);
    return fd;
}

void schedule_call(struct gemmd_request *request, gemmd_done_function call)
{
    bool waits = request->state == REQUEST_DONE && !request->reported;
    if (waits)
        TAILQ_REMOVE(list_of_done(request), request, of_state);
    request->on_done = call;
    if (waits)
        TAILQ_INSERT_TAIL(list_of_done(request), request, of_state);
    arm_timer(request->client, false);
}

static void start_attempt(struct gemmd_request *request, uint64_t now_us)
{
    request->attempts++;
    request->state = REQUEST_RUNNING;
    request->moved = 0;
    request->attempted_us = request->checked_us = now_us;
    if (transfer_start(request, now_us) != GEMMD_OK) {
        finish_request(request);
        return;
    }
    check_by(request->client, request->deadline_us);
    check_by(request->client, now_us + stall_us(request->client) / STALL_CHECKS);
}

static void start_queued(struct gemmd_client *client)
{
    uint64_t now = loop_now_us();
    while (client->queued_count > 0 && client->running_count < client->options.max_in_flight) {
        struct gemmd_request *request = TAILQ_FIRST(&client->queued);
        leave_list(request);
        TAILQ_INSERT_TAIL(&client->running, request, of_state);
        client->running_count++;
        start_attempt(request, now);
    }
}

/* The library's own want of memory is not repeated: waiting does not mend it. Nor is the question
 * for a job's result, which the caller wanted to ask once. */
static bool may_repeat(const struct gemmd_request *request)
{
    const struct gemmd_error_info *error = &request->error;
    return error->retriable && request->repeats_left > 0 && error->code != GEMMD_ERR_CONFLICT &&
           (error->http_status != 0 || error->code == GEMMD_ERR_CONNECTION);
}

/* The daemon waits for a job as long as it is asked to; should it not, it is not pestered. */
static bool is_not_there_yet(const struct gemmd_request *request)
{
    return request->operation->waits && request->error.http_status == 409;
}

/* The daemon takes no deadline as long as the caller would wait (its --max-timeout). From now on
 * about as long ones are not told either: each would be refused once. */
static bool was_told_too_long(struct gemmd_request *request)
{
    const struct gemmd_error_info *error = &request->error;
    const uint32_t told_ms = request->told_ms;
    if (told_ms == 0 || error->http_status != 400 ||
        strcmp(error->field, request->operation->time_parameter) != 0)
        return false;
    request->untimed = true;
    request->client->refused_ms = told_ms - told_ms / 8;
    return true;
}

static void out_of_time(struct gemmd_request *request)
{
    failure_set(&request->error, GEMMD_ERR_TIMEOUT, NULL, "there was no result within %llu ms",
                (unsigned long long)(request->deadline_us - request->submitted_us) / 1000);
}

static void end_attempt(struct gemmd_request *request, CURLcode result)
{
    struct gemmd_client *client = request->client;
    if (transfer_finish(request, result) == GEMMD_OK) {
        failure_clear(&request->error);
        finish_request(request);
        return;
    }
    uint64_t resume_us = UINT64_MAX;
    if (request->unshared) {
        request->unshared = false;
        resume_us = 0;
    } else if (was_told_too_long(request)) {
        resume_us = 0;
    } else if (request->stale) {
        /* Nobody's failure, and no repeat: the daemon closes what is idle for long. */
        request->stale = false;
        request->fresh = true;
        resume_us = 0;
    } else if (is_not_there_yet(request)) {
        request->fresh = false;
        resume_us = request->attempted_us + ASK_AGAIN_US;
        if (resume_us >= request->deadline_us)
            out_of_time(request);
    } else if (may_repeat(request)) {
        request->repeats_left--;
        request->fresh = false;
        resume_us = loop_now_us() +
                    backoff_us(request->attempts, request->error.retry_after_ms, &client->random);
    }
    if (resume_us >= request->deadline_us) {
        finish_request(request);
        return;
    }
    request->state = REQUEST_RESTING;
    request->resume_us = resume_us;
    check_by(client, resume_us);
}

static void end_attempts(struct gemmd_client *client)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(client->loop.multi, &left)) != NULL) {
        CURLcode result = message->data.result;
        struct gemmd_request *request = transfer_request(message->easy_handle);
        end_attempt(request, result);
    }
}

static void abort_request(struct gemmd_request *request)
{
    if (request->state == REQUEST_RUNNING)
        transfer_abort(request);
    finish_request(request);
}

void schedule_cancel(struct gemmd_request *request)
{
    abort_request(request);
    arm_timer(request->client, false);
}

static void expire_request(struct gemmd_request *request)
{
    /* What was refused before says more than that the time is over. */
    bool refused = request->state == REQUEST_RESTING && request->error.code != GEMMD_OK;
    if (!refused || is_not_there_yet(request))
        out_of_time(request);
    abort_request(request);
}

/* True if the request has moved no byte for too long, though it should have. */
static bool has_stalled(struct gemmd_request *request, uint64_t now_us)
{
    uint64_t moved = transfer_moved(request);
    if (moved != request->moved || !transfer_should_move(request)) {
        request->moved = moved;
        request->checked_us = now_us;
        return false;
    }
    return now_us - request->checked_us >= stall_us(request->client);
}

static void check_running(struct gemmd_request *request, uint64_t now_us)
{
    struct gemmd_client *client = request->client;
    if (request->deadline_us <= now_us) {
        expire_request(request);
    } else if (request->state == REQUEST_RESTING) {
        if (request->resume_us <= now_us)
            start_attempt(request, now_us);
        else
            check_by(client, request->resume_us);
    } else if (has_stalled(request, now_us)) {
        failure_set(&request->error, GEMMD_ERR_TIMEOUT, NULL,
                    "no byte was sent to or received from %s for %u ms", client->address.name,
                    client->options.stall_timeout_ms);
        abort_request(request);
    } else {
        check_by(client, request->deadline_us);
        check_by(client, now_us + stall_us(client) / STALL_CHECKS);
    }
}

static void check_times(struct gemmd_client *client)
{
    uint64_t now = loop_now_us();
    struct gemmd_request *request, *next;
    if (now < client->check_us)
        return;
    client->check_us = LOOP_NEVER;
    for (request = TAILQ_FIRST(&client->running); request != NULL; request = next) {
        next = TAILQ_NEXT(request, of_state);
        check_running(request, now);
    }
    for (request = TAILQ_FIRST(&client->queued); request != NULL; request = next) {
        next = TAILQ_NEXT(request, of_state);
        if (request->deadline_us <= now)
            expire_request(request);
        else
            check_by(client, request->deadline_us);
    }
}

/* Nobody can tell which of them is not watched any more. */
static void give_up_running(struct gemmd_client *client)
{
    struct gemmd_request *request, *next;
    for (request = TAILQ_FIRST(&client->running); request != NULL; request = next) {
        next = TAILQ_NEXT(request, of_state);
        if (request->state != REQUEST_RUNNING)
            continue;
        failure_set(&request->error, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                    "there is no memory to watch the connections");
        abort_request(request);
    }
}

void schedule_submit(struct gemmd_request *request)
{
    struct gemmd_client *client = request->client;
    request->state = REQUEST_QUEUED;
    request->reported = false;
    TAILQ_INSERT_TAIL(&client->queued, request, of_state);
    client->queued_count++;
    check_by(client, request->deadline_us);
    start_queued(client);
    arm_timer(client, request->state == REQUEST_DONE);
}

void schedule_turn(struct gemmd_client *client, uint64_t until_us)
{
    uint64_t done_before = client->done_count;
    check_times(client);
    start_queued(client);
    if (client->check_us < until_us)
        until_us = client->check_us;
    /* Whoever waits for what is done now must not wait for anything else. */
    if (client->done_count != done_before || !TAILQ_EMPTY(&client->calls))
        until_us = 0;
    bool watched = loop_turn(&client->loop, until_us);
    end_attempts(client);
    if (!watched)
        give_up_running(client);
    call_back(client);
    start_queued(client);
    arm_timer(client, false);
}
