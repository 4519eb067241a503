#include "server/http/io_thread.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/guard.h"
#include "server/http/request_parts.h"
#include "server/http/server.h"
#include "server/http/stream.h"
#include "server/http/tls.h"

/* Iterations of the loop after the thread was stopped, in which the last answers are sent. */
enum { LAST_ITERATIONS = 4 };
/* Iterations in which no request advances before the thread pauses although libmicrohttpd wants to
 * run again, and the length of a pause. */
enum { STILL_ITERATIONS = 64 };
static const uint64_t STILL_PAUSE_NS = 10000000;

static void io_thread_on_check(struct inbox_message *message)
{
    struct io_thread *thread = OWNER_OF(message, struct io_thread, check);
    atomic_store(&thread->checking, false);
    heartbeat_beat(&thread->heartbeat);
    streams_check(thread);
    thread_options_refresh(&thread->options);
    checks_begin(&thread->checks, thread->server, &thread->options.newest->config, clock_now_ns());
}

static void io_thread_on_stop(struct inbox_message *message)
{
    OWNER_OF(message, struct io_thread, stop)->stopping = true;
}

static bool has_more_to_do(struct MHD_Daemon *mhd)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    return mhd != NULL && MHD_get_timeout(mhd, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

/* Whether a request advanced so recently that the thread does not sleep yet (--busy-poll-us). */
static bool polls_on(const struct io_thread *thread, uint64_t now_ns)
{
    const struct config *config = &thread->options.newest->config;
    return now_ns - thread->moved_ns < config->busy_poll_us * UINT64_C(1000);
}

/* Waits until there is something to do, but not longer than `limit_ns` (UINT64_MAX: no limit). */
static void wait_for_work(struct io_thread *thread, const int fds[INBOX_FDS_MAX], uint64_t limit_ns)
{
    const uint64_t now_ns = clock_now_ns();
    if (log_buffer_due_ns(&thread->log_buffer) <= now_ns)
        log_flush(thread->server->log, &thread->log_buffer);
    if (polls_on(thread, now_ns) || thread->long_calls.first != NULL)
        return;
    const uint64_t dues_ns[] = {log_buffer_due_ns(&thread->log_buffer),
                                waiters_due_ns(&thread->waiters), dropped_bodies_due_ns(thread)};
    uint64_t due_ns = limit_ns == UINT64_MAX ? UINT64_MAX : now_ns + limit_ns;
    for (size_t i = 0; i < sizeof dues_ns / sizeof *dues_ns; i++)
        due_ns = dues_ns[i] < due_ns ? dues_ns[i] : due_ns;
    inbox_wait(&thread->inbox, fds, INBOX_FDS_MAX, clock_ms_until(due_ns, now_ns));
}

/* Ends the waits that are over, and lets libmicrohttpd read, write and call back, without waiting.
 */
static void io_thread_iterate(struct io_thread *thread)
{
    const uint64_t now_ns = clock_now_ns();
    if (thread->dropped_bodies.suspended.first != NULL)
        dropped_bodies_advance(thread, now_ns);
    if (thread->waiters.waiting.first != NULL)
        waiters_check(&thread->waiters, now_ns);
    if (thread->moved)
        thread->moved_ns = now_ns;
    thread->busy = thread->moved || polls_on(thread, now_ns);
    thread->moved = thread->made_long_call = false;
    /* MHD_run fails only if the daemon was stopped or has threads of its own. */
    (void)MHD_run(thread->mhd);
    if (thread->tls_mhd != NULL)
        (void)MHD_run(thread->tls_mhd);
    if (thread->arriving.first != NULL)
        arrival_end_untaken(thread);
    /* A thread that polls must not pause: its requests are not suspended (request_ask_for_answer),
     * so nothing would wake it when their work is done. */
    thread->still_iterations = thread->moved || thread->busy ? 0 : thread->still_iterations + 1;
}

static int epoll_of(struct MHD_Daemon *mhd)
{
    return mhd == NULL ? -1 : MHD_get_daemon_info(mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

static void *io_thread_run(void *argument)
{
    struct io_thread *thread = argument;
    const int fds[INBOX_FDS_MAX] = {
        epoll_of(thread->mhd),
        epoll_of(thread->tls_mhd),
        thread->arrivals.epoll_fd,
        thread->waiters.epoll_fd,
    };
    char name[16];
    snprintf(name, sizeof name, "io-%" PRIu32, thread->index);
    pthread_setname_np(pthread_self(), name);

    while (!thread->stopping) {
        if (thread->checks.next != NULL)
            checks_go_on(&thread->checks, thread->server, clock_now_ns());
        else if (!has_more_to_do(thread->mhd) && !has_more_to_do(thread->tls_mhd))
            wait_for_work(thread, fds, UINT64_MAX);
        else if (thread->still_iterations >= STILL_ITERATIONS)
            wait_for_work(thread, fds, STILL_PAUSE_NS);
        inbox_act(&thread->inbox);
        if (thread->arrivals.count > 0)
            arrival_take_ready(thread);
        io_thread_iterate(thread);
    }
    waiters_stop(&thread->waiters);
    dropped_bodies_stop(thread);
    streams_stop(thread);
    for (int i = 0; i < LAST_ITERATIONS; i++)
        io_thread_iterate(thread);
    return NULL;
}

/* Starts one of the thread's two libmicrohttpd daemons. NULL: it did not start. */
static struct MHD_Daemon *start_mhd(struct io_thread *thread, bool with_tls)
{
    const struct http_server *server = thread->server;
    const struct config *config = &thread->options.newest->config;
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem tls_options[TLS_DAEMON_OPTIONS + 1] = {{MHD_OPTION_END, 0, NULL}};
    bool bulk = thread->index >= server->bulk_thread_first;
    /* In its strict mode, a lenient parser (guard.h) closes the connection of a malformed
     * request line without an answer. The mode is off, because the guard checks the same rules and
     * answers. */
    const int strict = server->lenient_parser ? 0 : 1;
    if (server->lenient_parser)
        flags |= MHD_USE_ERROR_LOG; /* for guard_on_message */
    size_t buffer_bytes = bulk ? config->bulk_buffer_bytes : config->connection_buffer_bytes;
    /* Half of the buffer is for reading at first. Before it reads, libmicrohttpd adds an eighth of
     * what is free if less room than the increment is left. With the size of the buffer, 32 KiB,
     * as the increment, the head and the body of a product of f32 64x64x64 are read with two calls
     * instead of three. */
    if (with_tls) {
        flags |= MHD_USE_TLS;
        tls_daemon_options(server->tls, tls_options);
        tls_options[TLS_DAEMON_OPTIONS] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    }
    return MHD_start_daemon(
        flags, 0, NULL, NULL, request_handle, thread, MHD_OPTION_EXTERNAL_LOGGER, guard_on_message,
        thread, MHD_OPTION_URI_LOG_CALLBACK, request_first_line, thread,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, thread, MHD_OPTION_NOTIFY_CONNECTION,
        arrival_on_connection, thread, MHD_OPTION_CONNECTION_MEMORY_LIMIT, buffer_bytes,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, buffer_bytes, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)config->max_connections, MHD_OPTION_STRICT_FOR_CLIENT, strict,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_ARRAY, tls_options, MHD_OPTION_END);
}

enum gemmd_error io_thread_start(struct http_server *server, uint32_t index, struct io_thread **out,
                                 struct fault *fault)
{
    struct io_thread *thread = aligned_alloc(_Alignof(struct io_thread), sizeof *thread);
    if (thread == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for an I/O thread");
    memset(thread, 0, sizeof *thread);
    thread->server = server;
    thread->index = index;
    thread->shard = metrics_shard(server->metrics, index);
    thread->check.act = io_thread_on_check;
    thread->stop.act = io_thread_on_stop;
    if (getrandom(&thread->id_state, sizeof thread->id_state, 0) != sizeof thread->id_state)
        thread->id_state = clock_now_ns() ^ ((uint64_t)index << 56);

    if (!thread_options_open(&thread->options, server->options))
        goto no_options;
    if (!inbox_open(&thread->inbox))
        goto no_inbox;
    if (!arrivals_open(&thread->arrivals))
        goto no_arrivals;
    if (!waiters_open(&thread->waiters, request_give_up))
        goto no_waiters;
    thread->services = server->thread_services_create(server->services);
    if (thread->services == NULL)
        goto no_services;
    thread->mhd = start_mhd(thread, false);
    if (thread->mhd == NULL)
        goto no_mhd;
    if (server->tls != NULL) {
        thread->tls_mhd = start_mhd(thread, true);
        if (thread->tls_mhd == NULL)
            goto no_tls;
    }
    if (pthread_create(&thread->thread, NULL, io_thread_run, thread) != 0)
        goto no_thread;
    *out = thread;
    return GEMMD_OK;

no_thread:
    if (thread->tls_mhd != NULL)
        MHD_stop_daemon(thread->tls_mhd);
no_tls:
    MHD_stop_daemon(thread->mhd);
no_mhd:
    server->thread_services_destroy(thread->services);
no_services:
    waiters_close(&thread->waiters);
no_waiters:
    arrivals_close(&thread->arrivals);
no_arrivals:
    inbox_close(&thread->inbox);
no_inbox:
    thread_options_close(&thread->options);
no_options:
    free(thread);
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "an I/O thread did not start");
}

void io_thread_stop(struct io_thread *thread)
{
    inbox_post(&thread->inbox, &thread->stop);
    pthread_join(thread->thread, NULL);
    MHD_stop_daemon(thread->mhd);
    if (thread->tls_mhd != NULL)
        MHD_stop_daemon(thread->tls_mhd);
    arrival_end_untaken(thread);
    struct list_item *left; /* connections that were never given to libmicrohttpd are not parked */
    while ((left = thread->checks.watched.first) != NULL) {
        struct connection *connection = OWNER_OF(left, struct connection, in_checks);
        close(connection->fd);
        arrival_end_connection(connection);
    }
    log_flush(thread->server->log, &thread->log_buffer);
}

void io_thread_destroy(struct io_thread *thread)
{
    if (thread == NULL)
        return;
    spares_free(&thread->requests);
    spares_free(&thread->calls);
    read_ahead_free(&thread->ahead_buffers);
    waiters_close(&thread->waiters);
    arrivals_close(&thread->arrivals);
    thread->server->thread_services_destroy(thread->services);
    inbox_close(&thread->inbox);
    thread_options_close(&thread->options);
    free(thread);
}

void io_thread_check(struct io_thread *thread)
{
    if (!atomic_exchange(&thread->checking, true))
        inbox_post(&thread->inbox, &thread->check);
}
