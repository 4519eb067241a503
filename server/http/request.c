#include "server/http/request.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "server/base/clock.h"
#include "server/http/connection.h"
#include "server/http/digests.h"
#include "server/http/forwarded.h"
#include "server/http/guard.h"
#include "server/http/inflater.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/respond.h"
#include "server/http/server.h"
#include "server/net/delivery.h"

/* Changes the number of active requests. Only this thread writes the counter, so no atomic
 * read-modify-write is needed. */
static void count_active(struct io_thread *thread, int change)
{
    unsigned now = atomic_load_explicit(&thread->active_requests, memory_order_relaxed);
    atomic_store_explicit(&thread->active_requests, now + (unsigned)change, memory_order_relaxed);
}

/* Copies as much of a text as there is room for, and ends the copy with a zero byte. */
static void copy_cut(char *out, size_t room, const char *text)
{
    const size_t length = strnlen(text, room - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

/* Notes whether the path has an escaped zero byte or slash. libmicrohttpd gives the path unescaped
 * and as a C string, where a zero byte would look like the end and a slash like a separator. */
static void find_escapes(struct request *request, const char *uri)
{
    const size_t length = strcspn(uri, "?");
    for (const char *p = uri; (p = memchr(p, '%', (size_t)(uri + length - p))) != NULL; p++) {
        request->escapes_zero |= strncmp(p, "%00", 3) == 0;
        request->escapes_slash |= strncasecmp(p, "%2f", 3) == 0;
    }
}

void *request_first_line(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct io_thread *thread = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    struct request *request = spares_take(&thread->requests, sizeof *request);
    if (request == NULL)
        return NULL; /* request_handle closes the connection */
    memset(request, 0, offsetof(struct request, fault));
    request->fault.code = GEMMD_OK;
    request->fault.field[0] = request->fault.detail[0] = '\0';
    request->id[0] = request->method[0] = request->name[0] = '\0';
    request->trace.sampled = false;
    request->trace.trace_id[0] = request->trace.parent_id[0] = request->trace.span_id[0] = '\0';
    request->server = thread->server;
    request->options = thread_options_hold(&thread->options);
    request->config = &request->options->config;
    request->thread = thread;
    request->connection = connection;
    request->mhd = mhd;
    request->tenant = "";
    request->max_priority = GEMM_PRIORITY_MAX;
    request->started_ns = clock_now_ns();
    request->target = uri;
    request->target_bytes = strlen(uri);
    request->target_is_sound = guard_target(uri, request->target_bytes);
    const char *path = route_path(uri);
    request->may_have_secret = request_path_copy(thread->server->tokens, path, request->path);
    find_escapes(request, path);
    connection->request = request;
    connection->encrypted = connection->session != NULL;
    if (thread->server->lenient_parser)
        list_append(&thread->reading_heads, &request->in_heads);
    count_active(thread, 1);
    thread->moved = true;
    connection_enter(connection, CONNECTION_HEADERS, request->started_ns);
    return request;
}

bool request_has_body(const struct request *request)
{
    return request->chunked || request->content_length > 0;
}

bool request_is_connected(const struct request *request)
{
    return !connection_is_ended(request->connection);
}

void request_set_deadline(struct request *request, uint64_t deadline_ns)
{
    request->connection->deadline_ns = deadline_ns;
}

/* Frees a request, after libmicrohttpd's last callback for it and after its work is done. */
static void request_end(struct request *request)
{
    if (request->call != NULL && request->endpoint->release != NULL)
        request->endpoint->release(request);
    if (request->inflater != NULL)
        inflater_destroy(request->inflater);
    if (request->digests != NULL)
        digests_close(request->digests);
    count_active(request->thread, -1);
    options_copy_release(request->options);
    spares_give(&request->thread->calls, request->call);
    spares_give(&request->thread->requests, request);
}

static void request_resume(struct request *request)
{
    if (request->suspended)
        MHD_resume_connection(request->mhd);
    request->suspended = false;
}

static void request_work_done(struct inbox_message *message)
{
    struct request *request = OWNER_OF(message, struct request, done);
    request->handed_over = false;
    if (request->abandoned)
        request_end(request);
    else
        request_resume(request);
}

void request_hand_over(struct request *request)
{
    struct connection *connection = request->connection;
    /* At the end of a body, request_body_end has entered this phase just before. */
    if (connection->phase != CONNECTION_WORKING)
        connection_enter(connection, CONNECTION_WORKING, clock_now_ns());
    request->state = REQUEST_WORKING;
    request->handed_over = true;
    request->done.act = request_work_done;
    request->among_waiters = (struct waiter){.fd = connection->fd,
                                             .since_ns = connection->since_ns,
                                             .deadline_ns = connection->deadline_ns};
    waiters_add(&request->thread->waiters, &request->among_waiters);
}

void request_hand_over_again(struct request *request)
{
    atomic_store(&request->progress, PROGRESS_RUNNING);
    request->awaited = false;
    connection_enter(request->connection, CONNECTION_WORKING, clock_now_ns());
    request_hand_over(request);
}

void request_hand_over_rest(struct request *request)
{
    atomic_store(&request->progress, PROGRESS_RUNNING);
    request->awaited = false;
    request->handed_over = true;
    request->done.act = request_work_done;
}

void request_wake(struct request *request)
{
    if (atomic_exchange(&request->progress, PROGRESS_DONE) == PROGRESS_AWAITED)
        inbox_post(&request->thread->inbox, &request->done);
}

/* Whether other threads still have the work, as far as this thread knows. Looks whether the work
 * has ended since the last call. */
static bool request_is_handed_over(struct request *request)
{
    if (!request->awaited && atomic_load(&request->progress) == PROGRESS_DONE)
        request->handed_over = false;
    return request->handed_over;
}

/* Makes the thread that ends the work post to the inbox of the I/O thread. Returns false if the
 * work is already done. */
static bool request_await_end(struct request *request)
{
    enum request_progress before = PROGRESS_RUNNING;
    if (!request->handed_over || request->awaited)
        return request->handed_over;
    const bool runs = atomic_compare_exchange_strong(&request->progress, &before, PROGRESS_AWAITED);
    request->awaited = runs;
    request->handed_over = runs;
    return runs;
}

/* While the connection is suspended, `waiters` looks whether the client has disconnected, and ends
 * the wait at the deadline and when the thread stops. */
enum request_rest request_await_rest(struct request *request)
{
    struct waiters *waiters = &request->thread->waiters;
    const uint64_t now_ns = clock_now_ns();
    waiters_remove(waiters, &request->among_waiters);
    connection_go_on_sending(request->connection, now_ns);
    if (request->given_up)
        return REQUEST_REST_GIVEN_UP;
    if (!request_is_handed_over(request) || !request_await_end(request))
        return REQUEST_REST_DONE;
    request->among_waiters = (struct waiter){.fd = request->connection->fd,
                                             .since_ns = now_ns,
                                             .deadline_ns = request->connection->deadline_ns};
    waiters_add(waiters, &request->among_waiters);
    connection_pause_sending(request->connection, now_ns);
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    return REQUEST_REST_AWAITED;
}

/* Takes the work back from other threads. Returns false if the work has begun. */
static bool request_withdraw(struct request *request)
{
    if (!request_is_handed_over(request))
        return true;
    if (request->digests != NULL && digests_has_answer(request->digests)) /* its work is done */
        request->handed_over = !digests_withdraw(request);
    else if (request->endpoint->withdraw != NULL && request->endpoint->withdraw(request))
        request->handed_over = false;
    return !request->handed_over;
}

void request_give_up(struct waiter *waiter, enum waiter_end why)
{
    struct request *request = OWNER_OF(waiter, struct request, among_waiters);
    if (!request_is_handed_over(request) && why != WAITER_LEFT)
        return; /* the work is done and the answer is about to be sent */
    const bool hashes = request->digests != NULL && digests_has_answer(request->digests);
    const bool begun = !request_withdraw(request);
    request->given_up = true;
    if (why == WAITER_LEFT)
        connection_abandon(request->connection);
    else if (why == WAITER_STOPPED)
        fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    else
        fault_set(&request->fault, GEMMD_ERR_DEADLINE, NULL, "the deadline passed while %s",
                  hashes  ? "the digest of the answer was computed"
                  : begun ? "the device worked on the request"
                          : "the request was queued");
    request_resume(request);
}

/* Lets the endpoint answer if the work is done. Returns false if the connection must be closed. */
static bool request_ask_for_answer(struct request *request)
{
    struct io_thread *thread = request->thread;
    if (request->given_up) {
        if (request->connection->phase == CONNECTION_GONE)
            return false;
        respond_fault(request, &request->fault);
        return true;
    }
    if (request_is_handed_over(request)) {
        if (thread->busy)
            return true;
        if (request_await_end(request)) {
            request->suspended = true;
            MHD_suspend_connection(request->mhd);
            return true;
        }
    }
    const bool is_hashed = request->digests != NULL && digests_has_answer(request->digests);
    if (!is_hashed && request_waits_for_turn(request))
        return true;
    waiters_remove(&thread->waiters, &request->among_waiters);
    thread->moved = true;
    if (is_hashed)
        respond_digested(request);
    else
        request->endpoint->answer(request);
    return true;
}

/* Finds the endpoint, allocates its state, and lets it begin. */
static void request_begin(struct request *request, const struct request_line *line)
{
    if (route_find(request, line->url, line->method) != GEMMD_OK) {
        request_refuse(request);
        return;
    }
    const struct endpoint *endpoint = request->endpoint;
    if (endpoint->call_bytes > 0) {
        request->call = spares_take(&request->thread->calls, request->server->call_bytes_max);
        if (request->call == NULL) {
            request->endpoint = NULL;
            fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the request");
            request_refuse(request);
            return;
        }
        memset(request->call, 0, endpoint->call_zeroed_bytes);
    }
    endpoint->begin(request);
}

static void request_take_headers(struct request *request, const struct request_line *line)
{
    list_remove(&request->in_heads);
    copy_cut(request->method, sizeof request->method, line->method);
    if (guard_headers(request, line) != GEMMD_OK ||
        (!networks_are_none(&request->server->trusted) && forwarded_enter(request) != GEMMD_OK))
        request_refuse(request);
    else if (request_has_body(request))
        request_begin(request, line);
    else
        request->state = REQUEST_BODILESS;
}

enum MHD_Result request_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **context)
{
    struct request *request = *context;
    const struct request_line line = {.url = url, .method = method, .version = version};
    const size_t length = *upload_data_size; /* 0: the request is complete, or is to be answered */
    (void)cls;
    (void)mhd;
    if (request == NULL)
        return MHD_NO;
    /* After 100 Continue to a request without a body, libmicrohttpd announces a piece of no bytes
     * if it has read bytes of the next request. Such a call is not the end of the request. */
    if (upload_data != NULL && length == 0)
        return MHD_YES;
    *upload_data_size = 0;
    bool stays_open = false;
    switch (request->state) {
    case REQUEST_HEADERS:
        request_take_headers(request, &line);
        stays_open = true;
        break;
    case REQUEST_BODILESS:
        request_begin(request, &line);
        stays_open = request->state != REQUEST_RECEIVING || request_body_end(request);
        break;
    case REQUEST_RECEIVING:
    case REQUEST_DISCARDING:
        stays_open = length > 0 ? request_body_take(request, upload_data, length)
                                : request_body_end(request);
        break;
    case REQUEST_WORKING:
        stays_open = request_ask_for_answer(request);
        break;
    case REQUEST_ANSWERED: /* libmicrohttpd does not ask again once it has the answer */
    case REQUEST_FAILED:
        break;
    }
    return stays_open && request->state != REQUEST_FAILED ? MHD_YES : MHD_NO;
}

/* Whether libmicrohttpd itself has answered the request, because it could not parse the request. A
 * request in these states that ends without any answer has lost its client. */
static bool was_malformed(const struct request *request)
{
    return request->fault.code == GEMMD_OK &&
           (request->state == REQUEST_HEADERS || request->state == REQUEST_RECEIVING) &&
           MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_HTTP_STATUS) != NULL;
}

/* Whether a connection that libmicrohttpd ended with an error had received the whole answer. After
 * the call that writes a small answer, libmicrohttpd needs another turn to complete the request; a
 * client that closes its Unix socket before that turn looks like one that left in the middle. A
 * client that closes between the end of its request's work and that call counts as served too. */
static bool was_served(const struct request *request)
{
    return request->state == REQUEST_ANSWERED && request->connection->ended_by == GEMMD_OK &&
           !request->written_in_pieces && request->response_bytes <= SMALL_ANSWER_BYTES &&
           delivery_was_read(request->connection->fd);
}

/* Records why the connection ended before the whole answer was sent. */
static void request_note_end(struct request *request)
{
    enum gemmd_error ended_by = request->connection->ended_by;
    if (ended_by == GEMMD_OK && was_malformed(request))
        ended_by = GEMMD_ERR_MALFORMED;
    if (ended_by != GEMMD_OK) {
        request->fault.code = ended_by;
        request->status = error_status(ended_by);
        return;
    }
    if (request->fault.code == GEMMD_OK)
        request->fault.code = GEMMD_ERR_CANCELLED;
    metrics_client_gone(request->thread->shard);
}

void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code)
{
    struct request *request = *context;
    uint64_t now_ns = clock_now_ns();
    (void)cls;
    (void)mhd;
    if (request == NULL)
        return;
    *context = NULL;
    waiters_remove(&request->thread->waiters, &request->among_waiters);
    request_body_forget(request);
    list_remove(&request->in_heads);
    list_remove(&request->in_long);
    struct connection *connection = request->connection;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !was_served(request))
        request_note_end(request);
    /* While the thread is busy, libmicrohttpd may notice before `waiters` that the client has
     * disconnected, so the work may still be queued. */
    const bool works = request->handed_over && !request_withdraw(request);
    request_record(request, !works, now_ns);
    if (request->client_counted)
        forwarded_leave(request);
    connection->deadline_ns = 0;
    connection->request = NULL;
    connection_enter(connection, CONNECTION_IDLE, now_ns);
    /* If other threads still have the work, request_work_done frees the request later. */
    request->abandoned = works && request_await_end(request);
    if (!request->abandoned)
        request_end(request);
}
