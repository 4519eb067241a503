#include "client/schedule.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/failure.h"
#include "client/transfer.h"

/* Number of checks for a stall within stall_timeout_ms. */
enum { STALL_CHECKS = 4 };

/* The shortest time between two requests for the same job's result. */
enum { ASK_AGAIN_US = 1000000 };

uint64_t backoff_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    }
    return seed != 0 ? seed : 1;
}

/* xorshift64*, S. Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

uint64_t backoff_us(uint32_t attempts, uint32_t retry_after_ms, uint64_t *random)
{
    uint64_t bound_ms = BACKOFF_BASE_MS;
    for (uint32_t i = 1; i < attempts && bound_ms < BACKOFF_CAP_MS; i++)
        bound_ms *= 2;
    if (bound_ms > BACKOFF_CAP_MS)
        bound_ms = BACKOFF_CAP_MS;
    return (uint64_t)retry_after_ms * 1000 + next_random(random) % (bound_ms * 1000 + 1);
}

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

/* Returns the list in which a request that is done stays until the request is reported to the
 * caller. */
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

/* Calls the callbacks that are due at the start of the function. A callback may make further
 * callbacks due, which wait for the next turn, or may release requests whose callback was due. */
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

/* Sets the timer of the descriptor that the caller may be watching: when the next turn is due. */
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

/* A request that failed because this process has no memory is not repeated. A request for a job's
 * result that the caller wants to send once is not repeated either. */
static bool may_repeat(const struct gemmd_request *request)
{
    const struct gemmd_error_info *error = &request->error;
    return error->retriable && request->repeats_left > 0 && error->code != GEMMD_ERR_CONFLICT &&
           (error->http_status != 0 || error->code == GEMMD_ERR_CONNECTION);
}

/* Whether the daemon answered that a job is not done. The daemon waits before that answer as long
 * as the request asks for. A daemon that does not wait is asked again after ASK_AGAIN_US. */
static bool is_not_there_yet(const struct gemmd_request *request)
{
    return request->exchange->waits && request->error.http_status == 409;
}

/* Whether the daemon refused the request because its deadline is longer than --max-timeout. If so,
 * this request and later requests with about as long a deadline are sent without one, since the
 * daemon would refuse each of them first. */
static bool was_told_too_long(struct gemmd_request *request)
{
    const struct gemmd_error_info *error = &request->error;
    const uint32_t told_ms = request->told_ms;
    if (told_ms == 0 || error->http_status != 400 ||
        strcmp(error->field, request->exchange->time_parameter) != 0)
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
        /* The daemon closed an idle connection. The new attempt does not count as a repeat. */
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
    /* The error of an earlier attempt says more than that the time is over. */
    bool refused = request->state == REQUEST_RESTING && request->error.code != GEMMD_OK;
    if (!refused || is_not_there_yet(request))
        out_of_time(request);
    abort_request(request);
}

/* Whether no byte of the request was sent or received for stall_timeout_ms while bytes were
 * expected. */
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

/* Fails all running requests. The loop does not know which of them has a connection that is not
 * watched. */
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

void schedule_end_all(struct gemmd_client *client, enum gemmd_error code, const char *message)
{
    struct request_list *const lists[] = {&client->running, &client->queued};
    struct gemmd_request *request;
    for (int i = 0; i < 2; i++)
        while ((request = TAILQ_FIRST(lists[i])) != NULL) {
            failure_set(&request->error, code, NULL, "%s", message);
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
    /* A caller may be waiting for a request that is already done, so the turn must not wait. */
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
