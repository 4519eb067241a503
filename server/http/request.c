#include "server/http/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/guard.h"
#include "server/http/inflater.h"
#include "server/http/last_socket.h"
#include "server/http/request_record.h"
#include "server/http/respond.h"
#include "server/http/route.h"

/* Bodies of refused requests up to this length are read and dropped, which keeps the
 * connection; longer ones cost less as a new connection. */
static const uint64_t DISCARD_MAX_BYTES = 256 * 1024;

/* So many requests that ended leave a thread their memory: a busy one has no more at a time. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARE_MAX = 0 }; /* so that it sees what is used after its end */
#else
enum { SPARE_MAX = 32 };
#endif

/* One writer, so that no read-modify-write is needed. */
static void count_active(struct io_thread *thread, int change)
{
    unsigned now = atomic_load_explicit(&thread->active_requests, memory_order_relaxed);
    atomic_store_explicit(&thread->active_requests, now + (unsigned)change, memory_order_relaxed);
}

/* As much of a text as there is room for. */
static void copy_cut(char *out, size_t room, const char *text)
{
    const size_t length = strnlen(text, room - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

/* libmicrohttpd shows paths unescaped, and as C strings: with an end that is not theirs. */
static void look_for_escapes(struct request *request, const char *uri)
{
    const size_t length = strcspn(uri, "?");
    for (const char *p = uri; (p = memchr(p, '%', (size_t)(uri + length - p))) != NULL; p++) {
        request->escapes_zero |= strncmp(p, "%00", 3) == 0;
        request->escapes_slash |= strncasecmp(p, "%2f", 3) == 0;
    }
}

/* glibc puts together all that lies free whenever so large a block is asked for. */
static struct request *take_memory(struct io_thread *thread)
{
    struct request *request = thread->spare;
    if (request == NULL)
        return calloc(1, sizeof *request);
    thread->spare = request->next_spare;
    thread->spare_count--;
    memset(request, 0, sizeof *request);
    return request;
}

static void give_memory(struct request *request)
{
    struct io_thread *thread = request->thread;
    if (thread->spare_count + 1 > SPARE_MAX) {
        free(request);
        return;
    }
    request->next_spare = thread->spare;
    thread->spare = request;
    thread->spare_count++;
}

void request_free_spares(struct io_thread *thread)
{
    struct request *next;
    for (struct request *request = thread->spare; request != NULL; request = next) {
        next = request->next_spare;
        free(request);
    }
    thread->spare = NULL;
    thread->spare_count = 0;
}

void *request_first_line(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct io_thread *thread = cls;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    struct request *request = take_memory(thread);
    if (request == NULL)
        return NULL; /* request_handle closes the connection */
    request->daemon = thread->daemon;
    request->thread = thread;
    request->connection = connection;
    request->mhd = mhd;
    request->tenant = "";
    request->started_ns = clock_now_ns();
    copy_cut(request->path, sizeof request->path, route_path(uri));
    look_for_escapes(request, route_path(uri));
    connection->request = request;
    count_active(thread, 1);
    thread->moved = true;
    connection_enter(connection, CONNECTION_HEADERS, request->started_ns);
    return request;
}

const char *request_header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

enum gemmd_error request_check_daemon(struct request *request)
{
    struct daemon *daemon = request->daemon;
    if (atomic_load(&daemon->stage) == DAEMON_CLOSING)
        return fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    if (device_lost(daemon->device))
        return fault_set(&request->fault, GEMMD_ERR_DEVICE_LOST, NULL, "the device is lost");
    return GEMMD_OK;
}

static enum MHD_Result read_preference(void *cls, enum MHD_ValueKind kind, const char *name,
                                       const char *value)
{
    (void)kind;
    if (strcasecmp(name, "Prefer") == 0 && value != NULL)
        prefer_read(cls, value);
    return MHD_YES;
}

struct preferences request_preferences(const struct request *request)
{
    struct preferences preferences = {.respond_async = false};
    if (request_header(request, "Prefer") == NULL)
        return preferences;
    MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_preference, &preferences);
    return preferences;
}

void request_choose_id(struct request *request)
{
    request_id_choose(request->id, request_header(request, "X-Request-Id"),
                      &request->thread->id_state);
}

void request_refuse(struct request *request)
{
    bool small_body = !request->chunked && request->content_length > 0 &&
                      request->content_length <= DISCARD_MAX_BYTES;
    if (small_body && !request->expects_continue) {
        request->state = REQUEST_DISCARDING;
        connection_enter(request->connection, CONNECTION_BODY, clock_now_ns());
        return;
    }
    respond_fault(request, &request->fault);
}

void request_receive(struct request *request, uint64_t deadline_ns)
{
    request->state = REQUEST_RECEIVING;
    request->connection->deadline_ns = deadline_ns;
    connection_enter(request->connection, CONNECTION_BODY, clock_now_ns());
}

/* After the request's last callback, and once its work is done. */
static void end(struct request *request)
{
    if (request->endpoint != NULL && request->endpoint->release != NULL)
        request->endpoint->release(request);
    inflater_destroy(request->inflater);
    count_active(request->thread, -1);
    give_memory(request);
}

static void resume(struct request *request)
{
    if (request->suspended)
        MHD_resume_connection(request->mhd);
    request->suspended = false;
}

static void work_done(struct inbox_message *message)
{
    struct request *request = INBOX_OWNER(message, struct request, done);
    request->handed_over = false;
    if (request->abandoned)
        end(request);
    else
        resume(request);
}

void request_hand_over(struct request *request)
{
    connection_enter(request->connection, CONNECTION_WORKING, clock_now_ns());
    request->state = REQUEST_WORKING;
    request->handed_over = true;
    request->done.act = work_done;
    request->among_waiters = (struct waiter){.fd = request->connection->fd,
                                             .since_ns = request->connection->since_ns,
                                             .deadline_ns = request->connection->deadline_ns};
    waiters_add(&request->thread->waiters, &request->among_waiters);
}

void request_wake(struct request *request)
{
    if (atomic_exchange(&request->progress, PROGRESS_DONE) == PROGRESS_AWAITED)
        inbox_post(&request->thread->inbox, &request->done);
}

/* Whether others have the work still, as far as this thread knows. */
static bool is_handed_over(struct request *request)
{
    if (!request->awaited && atomic_load(&request->progress) == PROGRESS_DONE)
        request->handed_over = false;
    return request->handed_over;
}

/* From here on the end of the work comes through the inbox. False if the work is back already. */
static bool await_end(struct request *request)
{
    enum request_progress before = PROGRESS_RUNNING;
    if (request->handed_over && !request->awaited)
        request->awaited = request->handed_over =
            atomic_compare_exchange_strong(&request->progress, &before, PROGRESS_AWAITED);
    return request->handed_over;
}

/* Takes the work back from others, unless it has begun: then false. */
static bool withdraw(struct request *request)
{
    if (is_handed_over(request))
        request->handed_over =
            request->endpoint->withdraw == NULL || !request->endpoint->withdraw(request);
    return !request->handed_over;
}

void request_give_up(struct waiter *waiter, enum waiter_end why)
{
    struct request *request = WAITER_OWNER(waiter, struct request, among_waiters);
    if (!is_handed_over(request) && why != WAITER_LEFT)
        return; /* its answer is about to go */
    bool begun = !withdraw(request);
    request->given_up = true;
    if (why == WAITER_LEFT)
        connection_abandon(request->connection);
    else if (why == WAITER_STOPPED)
        fault_set(&request->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    else
        fault_set(&request->fault, GEMMD_ERR_DEADLINE, NULL, "the deadline passed while %s",
                  begun ? "the device worked on the request" : "the request was queued");
    resume(request);
}

/* False if the connection has to be closed. */
static bool ask_for_answer(struct request *request)
{
    struct io_thread *thread = request->thread;
    if (request->given_up) {
        if (request->connection->phase == CONNECTION_GONE)
            return false;
        respond_fault(request, &request->fault);
        return true;
    }
    if (is_handed_over(request)) {
        if (thread->busy)
            return true;
        if (await_end(request)) {
            request->suspended = true;
            MHD_suspend_connection(request->mhd);
            return true;
        }
    }
    waiters_remove(&thread->waiters, &request->among_waiters);
    thread->moved = true;
    request->endpoint->answer(request);
    return true;
}

static bool has_body(const struct request *request)
{
    return request->chunked || request->content_length > 0;
}

static void begin(struct request *request, const char *url, const char *method)
{
    if (route_find(request, url, method) != GEMMD_OK)
        request_refuse(request);
    else
        request->endpoint->begin(request);
}

static void take_headers(struct request *request, const char *url, const char *method)
{
    copy_cut(request->method, sizeof request->method, method);
    request_choose_id(request);
    if (guard_headers(request) != GEMMD_OK)
        request_refuse(request);
    else if (has_body(request))
        begin(request, url, method);
    else
        request->state = REQUEST_BODILESS;
}

static bool take_inflated(void *context, const void *bytes, uint64_t length)
{
    struct request *request = context;
    return request->endpoint->chunk(request, bytes, length);
}

/* Makes bytes of a compressed body whole again. As `chunk`. */
static bool inflate_chunk(struct request *request, const void *bytes, uint64_t length)
{
    if (request->inflater == NULL)
        request->inflater = inflater_create(request->coding, request->daemon->config.max_inflation);
    if (request->inflater == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory to inflate the body");
        return false;
    }
    return inflater_add(request->inflater, bytes, length, take_inflated, request,
                        &request->fault) == GEMMD_OK;
}

static bool take_chunk(struct request *request, const void *bytes, uint64_t length)
{
    return request->coding == CODING_IDENTITY ? request->endpoint->chunk(request, bytes, length)
                                              : inflate_chunk(request, bytes, length);
}

/* More of the body. False if the connection has to be closed. */
static bool receive(struct request *request, const char *bytes, size_t length)
{
    struct connection *connection = request->connection;
    request->thread->moved = true;
    request->received_bytes += length;
    connection->moved_bytes = request->received_bytes;
    if (request->state == REQUEST_RECEIVING) {
        if (take_chunk(request, bytes, length))
            return true;
        request->state = REQUEST_DISCARDING;
        request->content_length =
            request->received_bytes; /* what may still come is bounded from here */
    }
    /* Only a body whose end was not known can get here with more than DISCARD_MAX_BYTES to drop. */
    if (request->received_bytes > request->content_length + DISCARD_MAX_BYTES) {
        request->response_bytes =
            connection_send_fault(connection->fd, &request->fault, request->id);
        connection->ended_by = request->fault.code;
        connection->linger = true;
        return false;
    }
    return true;
}

/* The body is complete. False if connection_check has answered already: then there is nobody to
 * compute for. */
static bool end_body(struct request *request)
{
    const uint64_t now_ns = clock_now_ns();
    if (!connection_enter(request->connection, CONNECTION_WORKING, now_ns))
        return false;
    request->received_ns = now_ns;
    if (request->state == REQUEST_RECEIVING && request->inflater != NULL &&
        inflater_end(request->inflater, &request->fault) != GEMMD_OK)
        request->state = REQUEST_DISCARDING;
    if (request->state == REQUEST_DISCARDING) {
        respond_fault(request, &request->fault);
        return true;
    }
    request->endpoint->submit(request);
    return true;
}

enum MHD_Result request_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **context)
{
    struct request *request = *context;
    (void)cls;
    (void)mhd;
    (void)version;
    if (request == NULL)
        return MHD_NO;

    switch (request->state) {
    case REQUEST_HEADERS:
        take_headers(request, url, method);
        return MHD_YES;
    case REQUEST_BODILESS:
        begin(request, url, method);
        return request->state != REQUEST_RECEIVING || end_body(request) ? MHD_YES : MHD_NO;
    case REQUEST_RECEIVING:
    case REQUEST_DISCARDING:
        if (*upload_data_size > 0) {
            bool keep = receive(request, upload_data, *upload_data_size);
            *upload_data_size = 0;
            return keep ? MHD_YES : MHD_NO;
        }
        return end_body(request) ? MHD_YES : MHD_NO;
    case REQUEST_WORKING:
        return ask_for_answer(request) ? MHD_YES : MHD_NO;
    case REQUEST_ANSWERED:
        return MHD_YES;
    }
    return MHD_NO;
}

/* The connection ended before the answer did: who ended it? */
static void note_end(struct request *request)
{
    enum gemmd_error ended_by = request->connection->ended_by;
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
    struct connection *connection = request->connection;
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        note_end(request);
    /* While the thread is busy, libmicrohttpd may be the one to see that the client has left. */
    (void)withdraw(request);
    request_record(request, !is_handed_over(request), now_ns);
    connection->deadline_ns = 0;
    connection->request = NULL;
    connection_enter(connection, CONNECTION_IDLE, now_ns);
    last_socket_set(connection->fd); /* the next request may have been read already */
    /* Work that others have still keeps its memory until it comes back. */
    request->abandoned = await_end(request);
    if (!request->abandoned)
        end(request);
}
