#include "server/http/arrival.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/connection_memory.h"
#include "server/http/io_thread.h"
#include "server/http/refusal.h"
#include "server/http/request.h"
#include "server/http/server_state.h"
#include "server/http/tls.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/peer_counts.h"

/* The most new connections whose first bytes are looked at in one iteration of the loop. */
enum { NEW_CONNECTIONS_PER_ITERATION = 32 };
/* How much of a request's head is read to choose a thread, and the length from which a body counts
 * as large. Smaller bodies gained nothing from the larger buffer. */
enum { HEAD_BYTES = 2048, BULK_BYTES = 4 << 20 };

static void arrival_uncount(struct io_thread *thread, const struct connection *connection)
{
    atomic_fetch_sub(&thread->load, 1);
    atomic_fetch_sub(&thread->server->connections, 1);
    peer_counts_remove(thread->server->peers, (const struct sockaddr *)&connection->peer_address);
}

void arrival_end_connection(struct connection *connection)
{
    struct http_server *server = connection->thread->server;
    checks_remove(&connection->thread->checks, connection);
    if (connection->bulk)
        atomic_fetch_sub(&server->bulk_connections, 1);
    arrival_uncount(connection->thread, connection);
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

/* Ends a request that libmicrohttpd 0.9 has forgotten: if it meets a second error in a request, or
 * cannot watch the socket, it closes the connection without its callback for the request's end. A
 * second error in the headers means that neither the query nor the headers fitted in the buffer. */
static void arrival_complete_request(struct connection *connection, struct MHD_Connection *mhd)
{
    void *request = connection->request;
    if (connection->request->state == REQUEST_HEADERS && connection->ended_by == GEMMD_OK) {
        connection_refuse_parameters(connection);
        connection->linger = true;
    }
    shutdown(connection->fd, SHUT_WR);
    request_completed(connection->thread, mhd, &request, MHD_REQUEST_TERMINATED_WITH_ERROR);
}

/* libmicrohttpd announces a connection that it was given. Returns the connection. */
static struct connection *arrival_started(struct io_thread *thread, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *socket =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct connection *connection = take_arriving(thread, socket->connect_fd);
    if (tls != NULL && tls->tls_session != NULL)
        tls_begin(thread->server->tls, connection, tls->tls_session);
    return connection;
}

/* libmicrohttpd is about to close a connection. */
static void arrival_closed(struct connection *connection, struct MHD_Connection *mhd)
{
    struct io_thread *thread = connection->thread;
    const bool in_handshake = connection->session != NULL && !connection->encrypted;
    if (connection->session != NULL)
        metrics_handshake(thread->shard, connection->shook_hands);
    tls_end(connection); /* libmicrohttpd has freed the session */
    if (connection->request != NULL)
        arrival_complete_request(connection, mhd);
    if (connection->linger || (is_reading_request(connection) && !in_handshake))
        lingering_add(thread->server->lingering, connection->fd);
    arrival_end_connection(connection);
}

void arrival_on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                           enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = arrival_started(cls, mhd);
    else
        arrival_closed(*context, mhd);
}

static bool speaks_tls(const struct connection *connection)
{
    return tls_serves_peer(connection->thread->server->tls,
                           (const struct sockaddr *)&connection->peer_address);
}

/* Gives a connection to libmicrohttpd. libmicrohttpd calls arrival_on_connection before
 * MHD_add_connection returns (0.9) or in its next run (1.0). If libmicrohttpd cannot take the
 * socket, it closes the socket and does not call arrival_on_connection. */
static void arrival_admit(struct connection *connection)
{
    struct io_thread *thread = connection->thread;
    connection->next_arriving = thread->arriving;
    thread->arriving = connection;
    if (MHD_add_connection(speaks_tls(connection) ? thread->tls_mhd : thread->mhd, connection->fd,
                           (struct sockaddr *)&connection->peer_address,
                           connection->peer_length) == MHD_YES)
        return;
    if (take_arriving(thread, connection->fd) == connection)
        arrival_end_connection(connection);
}

void arrival_end_untaken(struct io_thread *thread)
{
    while (thread->arriving != NULL)
        arrival_end_connection(take_arriving(thread, thread->arriving->fd));
}

/* Runs on the bulk thread that a connection has been moved to. */
static void arrival_begin_in_bulk(struct inbox_message *message)
{
    struct connection *connection = INBOX_OWNER(message, struct connection, arrival);
    checks_add(&connection->thread->checks, connection);
    arrival_admit(connection);
}

/* Counts one more bulk connection, unless there are --bulk-connections of them already. */
static bool take_bulk_place(const struct io_thread *thread)
{
    struct http_server *server = thread->server;
    uint32_t taken = atomic_load(&server->bulk_connections);
    do {
        if (taken >= thread->options.newest->config.bulk_connections)
            return false;
    } while (!atomic_compare_exchange_weak(&server->bulk_connections, &taken, taken + 1));
    return true;
}

/* Moves a connection that take_bulk_place has counted to a bulk thread. */
static void arrival_move_to_bulk(struct connection *connection)
{
    struct io_thread *from = connection->thread;
    struct http_server *server = from->server;
    uint32_t first = server->bulk_thread_first;
    struct io_thread *to =
        arrival_choose_thread(server->threads + first, server->thread_count - first, from->index);
    checks_remove(&connection->thread->checks, connection);
    atomic_fetch_sub(&from->load, 1);
    atomic_fetch_add(&to->load, 1);
    connection->bulk = true;
    connection->thread = to;
    connection->arrival.act = arrival_begin_in_bulk;
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

/* Closes a connection that libmicrohttpd has not been given. */
static void arrival_close(struct connection *connection)
{
    const int fd = connection->fd;
    arrival_end_connection(connection);
    close(fd);
}

/* Refuses a connection that does not begin with an HTTP request. The connection lingers, so that a
 * client that is still sending does not lose the answer to a TCP reset. */
static void arrival_refuse(struct connection *connection, char first)
{
    refusal_not_http(connection, first);
    shutdown(connection->fd, SHUT_WR);
    lingering_add(connection->thread->server->lingering, connection->fd);
    arrival_close(connection);
}

/* Whether the first bytes can be those of a TLS handshake, if the connection must begin with one,
 * or of an HTTP request. */
static bool can_begin_so(const struct connection *connection, const char *head, uint64_t bytes)
{
    if (speaks_tls(connection))
        return head[0] == TLS_HANDSHAKE_RECORD;
    return new_connections_can_be_request(head, bytes);
}

/* Whether the first bytes are the head of a request with a large body. With TLS the head cannot be
 * read yet. */
static bool announces_large_body(const struct connection *connection, const char *head,
                                 uint64_t bytes)
{
    return !speaks_tls(connection) && new_connections_announced_bytes(head, bytes) >= BULK_BYTES;
}

/* Decides about a connection by its first bytes. */
static void arrival_route(struct connection *connection, const char *head, uint64_t bytes)
{
    if (!can_begin_so(connection, head, bytes))
        arrival_refuse(connection, head[0]);
    else if (announces_large_body(connection, head, bytes) && take_bulk_place(connection->thread))
        arrival_move_to_bulk(connection);
    else
        arrival_admit(connection);
}

static void arrival_continue_mapped(struct inbox_message *message);

/* Goes on with a connection that libmicrohttpd has not been given, as far as its first bytes have
 * arrived. */
static void arrival_decide(struct connection *connection)
{
    char head[HEAD_BYTES];
    ssize_t got = peek_head(connection, head);
    if (connection->peer_address.ss_family == AF_UNIX && starts_with_empty_line(head, got)) {
        connection->arrival.act = arrival_continue_mapped;
        const enum connection_memory_taken taken = connection_memory_take(connection);
        if (taken == CONNECTION_MEMORY_AWAITED)
            return; /* arrival_continue_mapped continues when the memory is mapped */
        if (taken == CONNECTION_MEMORY_FAILED) {
            arrival_close(connection);
            return;
        }
        got = peek_head(connection, head);
    }
    if (got < 0 && errno == EAGAIN &&
        new_connections_add(&connection->thread->new_connections, connection))
        return; /* arrival_take_ready continues when bytes have arrived */
    if (got > 0)
        arrival_route(connection, head, (uint64_t)got);
    else
        arrival_admit(connection); /* libmicrohttpd handles an end or an error of the connection */
}

static void arrival_continue_mapped(struct inbox_message *message)
{
    arrival_decide(INBOX_OWNER(message, struct connection, arrival));
}

static void arrival_begin(struct inbox_message *message)
{
    struct connection *connection = INBOX_OWNER(message, struct connection, arrival);
    checks_add(&connection->thread->checks, connection);
    arrival_decide(connection);
}

void arrival_take_ready(struct io_thread *thread)
{
    struct connection *ready[NEW_CONNECTIONS_PER_ITERATION];
    int count =
        new_connections_collect(&thread->new_connections, ready, NEW_CONNECTIONS_PER_ITERATION);
    for (int i = 0; i < count; i++)
        arrival_decide(ready[i]);
}

struct io_thread *arrival_choose_thread(struct io_thread *const *threads, uint32_t count,
                                        uint32_t turn)
{
    struct io_thread *best = threads[turn % count];
    for (uint32_t i = 1; i < count; i++) {
        struct io_thread *thread = threads[(turn + i) % count];
        if (atomic_load(&thread->load) < atomic_load(&best->load))
            best = thread;
    }
    return best;
}

void arrival_hand_over(struct io_thread *thread, int fd, const struct sockaddr *peer,
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
    connection->arrival.act = arrival_begin;
    inbox_post(&thread->inbox, &connection->arrival);
}
