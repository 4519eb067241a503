#include "server/http/io_thread.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/connection_memory.h"
#include "server/http/refusal.h"
#include "server/http/request.h"
#include "server/http/server.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/peer_counts.h"

/* Iterations of the loop after the thread was stopped, which send answers that are still due. */
enum { LAST_ITERATIONS = 4 };
enum { NEW_CONNECTIONS_PER_ITERATION = 32 };
/* How much of a request's head is read to choose a thread, and the length from which a body counts
 * as large. Smaller bodies gained nothing from the larger buffer. */
enum { HEAD_BYTES = 2048, BULK_BYTES = 4 << 20 };

static void uncount_connection(struct io_thread *thread, const struct connection *connection)
{
    atomic_fetch_sub(&thread->load, 1);
    atomic_fetch_sub(&thread->server->connections, 1);
    peer_counts_remove(thread->server->peers, (const struct sockaddr *)&connection->peer_address);
}

static void link_connection(struct io_thread *thread, struct connection *connection)
{
    connection->thread = thread;
    connection->previous = NULL;
    connection->next = thread->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    thread->connections = connection;
}

static void unlink_connection(struct connection *connection)
{
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        connection->thread->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
}

/* Frees a connection whose descriptor is closed, or is closed by the caller next. */
static void end_connection(struct connection *connection)
{
    struct http_server *server = connection->thread->server;
    unlink_connection(connection);
    if (connection->bulk)
        atomic_fetch_sub(&server->bulk_connections, 1);
    uncount_connection(connection->thread, connection);
    connection_memory_close(connection);
    free(connection);
}

/* Removes the connection with descriptor `fd` from the list of connections that libmicrohttpd was
 * given and has not announced yet. Returns NULL if the list has no such connection. */
static struct connection *take_arriving(struct io_thread *thread, int fd)
{
    struct connection **link = &thread->arriving;
    while (*link != NULL && (*link)->fd != fd)
        link = &(*link)->next_arriving;
    struct connection *connection = *link;
    if (connection != NULL)
        *link = connection->next_arriving;
    return connection;
}

/* Whether a request was still being read. libmicrohttpd itself answers a request that it cannot
 * parse, and closes the connection. The connection then has to linger, so that a client that is
 * still sending does not lose the answer to a TCP reset. */
static bool is_reading_request(const struct connection *connection)
{
    return connection->phase == CONNECTION_HEADERS || connection->phase == CONNECTION_BODY;
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct io_thread *thread = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = take_arriving(
            thread, MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
        return;
    }
    struct connection *connection = *context;
    if (connection->linger || is_reading_request(connection))
        lingering_add(thread->server->lingering, connection->fd);
    end_connection(connection);
}

/* Gives a connection to libmicrohttpd. libmicrohttpd calls on_connection before
 * MHD_add_connection returns (0.9) or in its next run (1.0). If libmicrohttpd cannot take the
 * socket, it closes the socket and does not call on_connection. */
static void admit_connection(struct connection *connection)
{
    struct io_thread *thread = connection->thread;
    connection->next_arriving = thread->arriving;
    thread->arriving = connection;
    if (MHD_add_connection(thread->mhd, connection->fd,
                           (struct sockaddr *)&connection->peer_address,
                           connection->peer_length) == MHD_YES)
        return;
    if (take_arriving(thread, connection->fd) == connection)
        end_connection(connection);
}

/* Frees the connections that libmicrohttpd should have announced in its last run and did not:
 * libmicrohttpd has closed their sockets. */
static void end_untaken(struct io_thread *thread)
{
    while (thread->arriving != NULL)
        end_connection(take_arriving(thread, thread->arriving->fd));
}

/* The connection has been moved to a bulk thread, which calls this. */
static void on_arrival_in_bulk(struct inbox_message *message)
{
    struct connection *connection = INBOX_OWNER(message, struct connection, arrival);
    link_connection(connection->thread, connection);
    admit_connection(connection);
}

static bool count_bulk_connection(struct http_server *server)
{
    uint32_t taken = atomic_load(&server->bulk_connections);
    do {
        if (taken >= server->config->bulk_connections)
            return false;
    } while (!atomic_compare_exchange_weak(&server->bulk_connections, &taken, taken + 1));
    return true;
}

static void move_to_bulk(struct connection *connection)
{
    struct io_thread *from = connection->thread;
    struct http_server *server = from->server;
    uint32_t first = server->bulk_thread_first;
    struct io_thread *to =
        io_thread_least_loaded(server->threads + first, server->thread_count - first, from->index);
    unlink_connection(connection);
    atomic_fetch_sub(&from->load, 1);
    atomic_fetch_add(&to->load, 1);
    connection->bulk = true;
    connection->thread = to;
    connection->arrival.act = on_arrival_in_bulk;
    inbox_post(&to->inbox, &connection->arrival);
}

static ssize_t peek_head(const struct connection *connection, char head[HEAD_BYTES])
{
    return recv(connection->fd, head, HEAD_BYTES, MSG_PEEK | MSG_DONTWAIT);
}

/* Whether the connection begins with an empty line, which may carry a client's memory.
 * libmicrohttpd must not read that line: the system ends a read at bytes that carry a descriptor,
 * and libmicrohttpd takes a short read as the end of the available bytes and waits. */
static bool starts_with_empty_line(const char *head, ssize_t length)
{
    return length >= 2 && head[0] == '\r' && head[1] == '\n';
}

/* Refuses a connection that does not begin with an HTTP request. The connection lingers, so that a
 * client that is still sending does not lose the answer to a TCP reset. */
static void refuse_connection(struct connection *connection, char first)
{
    const int fd = connection->fd;
    refusal_not_http(connection, first);
    shutdown(fd, SHUT_WR);
    lingering_add(connection->thread->server->lingering, fd);
    end_connection(connection);
    close(fd);
}

static void on_arrival_mapped(struct inbox_message *message);

static void route_connection(struct connection *connection)
{
    struct io_thread *thread = connection->thread;
    char head[HEAD_BYTES];
    ssize_t got = peek_head(connection, head);
    if (connection->peer_address.ss_family == AF_UNIX && starts_with_empty_line(head, got)) {
        connection->arrival.act = on_arrival_mapped;
        if (connection_memory_take(connection))
            return; /* on_arrival_mapped continues when the memory is mapped */
        got = peek_head(connection, head);
    }
    if (got < 0 && errno == EAGAIN && new_connections_add(&thread->new_connections, connection))
        return;
    if (got > 0 && !new_connections_can_be_request(head, (uint64_t)got))
        refuse_connection(connection, head[0]);
    else if (got > 0 && new_connections_announced_bytes(head, (uint64_t)got) >= BULK_BYTES &&
             count_bulk_connection(thread->server))
        move_to_bulk(connection);
    else
        admit_connection(connection);
}

static void on_arrival_mapped(struct inbox_message *message)
{
    route_connection(INBOX_OWNER(message, struct connection, arrival));
}

static void on_arrival(struct inbox_message *message)
{
    struct connection *connection = INBOX_OWNER(message, struct connection, arrival);
    link_connection(connection->thread, connection);
    route_connection(connection);
}

static void take_new_connections(struct io_thread *thread)
{
    struct connection *ready[NEW_CONNECTIONS_PER_ITERATION];
    int count =
        new_connections_collect(&thread->new_connections, ready, NEW_CONNECTIONS_PER_ITERATION);
    for (int i = 0; i < count; i++)
        route_connection(ready[i]);
}

static void io_thread_on_check(struct inbox_message *message)
{
    struct io_thread *thread = INBOX_OWNER(message, struct io_thread, check);
    uint64_t now_ns = clock_now_ns();
    atomic_store(&thread->checking, false);
    for (struct connection *c = thread->connections; c != NULL; c = c->next)
        connection_check(c, thread->server, now_ns);
}

static void io_thread_on_stop(struct inbox_message *message)
{
    INBOX_OWNER(message, struct io_thread, stop)->stopping = true;
}

static bool has_more_to_do(struct MHD_Daemon *mhd)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    return MHD_get_timeout(mhd, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

/* Whether a request advanced so recently that the thread does not sleep yet (--busy-poll-us). */
static bool polls_on(const struct io_thread *thread, uint64_t now_ns)
{
    return now_ns - thread->moved_ns < thread->server->config->busy_poll_us * UINT64_C(1000);
}

static void wait_for_work(struct io_thread *thread, const int fds[INBOX_FDS_MAX])
{
    uint64_t now_ns = clock_now_ns();
    int due_ms = log_buffer_due_ms(&thread->log_buffer, now_ns);
    if (due_ms == 0) {
        log_flush(thread->server->log, &thread->log_buffer);
        due_ms = -1;
    }
    int waiters_ms = waiters_due_ms(&thread->waiters, now_ns);
    if (waiters_ms >= 0 && (due_ms < 0 || waiters_ms < due_ms))
        due_ms = waiters_ms;
    if (!polls_on(thread, now_ns))
        inbox_wait(&thread->inbox, fds, INBOX_FDS_MAX, due_ms);
}

static void io_thread_iterate(struct io_thread *thread)
{
    uint64_t now_ns = clock_now_ns();
    if (thread->moved)
        thread->moved_ns = now_ns;
    thread->busy = thread->moved || polls_on(thread, now_ns);
    thread->moved = false;
    MHD_run(thread->mhd);
    end_untaken(thread);
}

static void *io_thread_run(void *argument)
{
    struct io_thread *thread = argument;
    const int fds[INBOX_FDS_MAX] = {
        MHD_get_daemon_info(thread->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
        thread->new_connections.epoll_fd,
        thread->waiters.epoll_fd,
    };
    char name[16];
    snprintf(name, sizeof name, "io-%" PRIu32, thread->index);
    pthread_setname_np(pthread_self(), name);

    while (!thread->stopping) {
        if (!has_more_to_do(thread->mhd))
            wait_for_work(thread, fds);
        inbox_act(&thread->inbox);
        take_new_connections(thread);
        if (thread->waiters.first != NULL)
            waiters_check(&thread->waiters, clock_now_ns());
        io_thread_iterate(thread);
    }
    waiters_stop(&thread->waiters);
    for (int i = 0; i < LAST_ITERATIONS; i++)
        io_thread_iterate(thread);
    return NULL;
}

static struct MHD_Daemon *start_mhd(struct io_thread *thread)
{
    const struct config *config = thread->server->config;
    bool bulk = thread->index >= thread->server->bulk_thread_first;
    size_t buffer_bytes = bulk ? config->bulk_buffer_bytes : config->connection_buffer_bytes;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        request_handle, thread, MHD_OPTION_URI_LOG_CALLBACK, request_first_line, thread,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, thread, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, thread, MHD_OPTION_CONNECTION_MEMORY_LIMIT, buffer_bytes,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)config->max_connections,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
}

struct io_thread *io_thread_least_loaded(struct io_thread *const *threads, uint32_t count,
                                         uint32_t io_thread_iterate)
{
    struct io_thread *best = threads[io_thread_iterate % count];
    for (uint32_t i = 1; i < count; i++) {
        struct io_thread *thread = threads[(io_thread_iterate + i) % count];
        if (atomic_load(&thread->load) < atomic_load(&best->load))
            best = thread;
    }
    return best;
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

    if (!inbox_open(&thread->inbox))
        goto no_inbox;
    if (!new_connections_open(&thread->new_connections))
        goto no_new_connections;
    if (!waiters_open(&thread->waiters, request_give_up))
        goto no_waiters;
    thread->services = server->thread_services_create(server->services);
    if (thread->services == NULL)
        goto no_services;
    thread->mhd = start_mhd(thread);
    if (thread->mhd == NULL)
        goto no_mhd;
    if (pthread_create(&thread->thread, NULL, io_thread_run, thread) != 0)
        goto no_thread;
    *out = thread;
    return GEMMD_OK;

no_thread:
    MHD_stop_daemon(thread->mhd);
no_mhd:
    server->thread_services_destroy(thread->services);
no_services:
    waiters_close(&thread->waiters);
no_waiters:
    new_connections_close(&thread->new_connections);
no_new_connections:
    inbox_close(&thread->inbox);
no_inbox:
    free(thread);
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "an I/O thread did not start");
}

void io_thread_stop(struct io_thread *thread)
{
    inbox_post(&thread->inbox, &thread->stop);
    pthread_join(thread->thread, NULL);
    MHD_stop_daemon(thread->mhd);
    end_untaken(thread);
    struct connection *next;
    for (struct connection *left = thread->connections; left != NULL; left = next) {
        next = left->next; /* `left` was never given to libmicrohttpd */
        close(left->fd);
        end_connection(left);
    }
    log_flush(thread->server->log, &thread->log_buffer);
}

void io_thread_destroy(struct io_thread *thread)
{
    if (thread == NULL)
        return;
    spares_free(&thread->requests);
    spares_free(&thread->calls);
    waiters_close(&thread->waiters);
    new_connections_close(&thread->new_connections);
    thread->server->thread_services_destroy(thread->services);
    inbox_close(&thread->inbox);
    free(thread);
}

void io_thread_add(struct io_thread *thread, int fd, const struct sockaddr *peer,
                   socklen_t peer_length)
{
    struct connection *connection = calloc(1, sizeof *connection);
    atomic_fetch_add(&thread->load, 1);
    if (connection == NULL) {
        close(fd);
        atomic_fetch_sub(&thread->load, 1);
        atomic_fetch_sub(&thread->server->connections, 1);
        peer_counts_remove(thread->server->peers, peer);
        return;
    }
    connection->thread = thread;
    connection->fd = fd;
    connection->phase = CONNECTION_HEADERS;
    connection->since_ns = clock_now_ns();
    memcpy(&connection->peer_address, peer, peer_length);
    connection->peer_length = peer_length;
    listen_peer_text(fd, connection->peer, sizeof connection->peer);
    connection->arrival.act = on_arrival;
    inbox_post(&thread->inbox, &connection->arrival);
}

void io_thread_check(struct io_thread *thread)
{
    if (!atomic_exchange(&thread->checking, true))
        inbox_post(&thread->inbox, &thread->check);
}
