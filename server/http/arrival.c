#include "server/http/arrival.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/http/io_thread.h"
#include "server/http/request_parts.h"
#include "server/http/server.h"
#include "server/http/tls.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/peer_counts.h"
#include "server/shm/shm_store.h"

/* The most new connections whose first bytes are looked at in one iteration of the loop, without
 * and with accepted bodies that are being received. libmicrohttpd reads one buffer of each body in
 * an iteration. Under overload most new connections bring a request that is refused, and an
 * iteration with many of them would hold up the accepted bodies: their requests would keep the
 * places of the queue for long, and the device would have nothing to compute. */
enum { NEW_CONNECTIONS_PER_ITERATION = 32, NEW_CONNECTIONS_BESIDE_BODIES = 3 };
/* How much of a request's head is read to choose a thread, and the length from which a body counts
 * as large. Smaller bodies gained nothing from the larger buffer. */
enum { HEAD_BYTES = 2048, BULK_BYTES = 4 << 20 };

/* ---- the end of a connection ---- */

void arrival_end_connection(struct connection *connection)
{
    struct io_thread *thread = connection->thread;
    struct http_server *server = thread->server;
    checks_remove(&thread->checks, connection);
    if (connection->bulk)
        atomic_fetch_sub(&server->bulk_connections, 1);
    atomic_fetch_sub(&thread->load, 1);
    atomic_fetch_sub(&server->connections, 1);
    peer_counts_remove(server->peers, (const struct sockaddr *)&connection->peer_address);
    if (connection->memory != NULL)
        shm_mapping_release(connection->memory->mapping);
    free(connection->memory);
    free(connection);
}

/* Closes a connection that libmicrohttpd has not been given. */
static void arrival_close(struct connection *connection)
{
    const int fd = connection->fd;
    arrival_end_connection(connection);
    close(fd);
}

/* ---- libmicrohttpd's callbacks ---- */

/* Removes the connection with descriptor `fd` from the list of connections that libmicrohttpd was
 * given and has not announced yet. Returns NULL if the list has no such connection. */
static struct connection *take_arriving(struct io_thread *thread, int fd)
{
    for (struct list_item *item = thread->arriving.first; item != NULL; item = item->next) {
        struct connection *connection = OWNER_OF(item, struct connection, arriving);
        if (connection->fd == fd) {
            list_remove(item);
            return connection;
        }
    }
    return NULL;
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
    /* libmicrohttpd 1.0 returns the same union from each call. */
    const int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct connection *connection = take_arriving(thread, fd);
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

/* ---- to libmicrohttpd, or to a bulk thread ---- */

static bool speaks_tls(const struct connection *connection)
{
    return tls_serves_peer(connection->thread->server->tls,
                           (const struct sockaddr *)&connection->peer_address);
}

/* Gives a connection to libmicrohttpd. libmicrohttpd calls arrival_on_connection before
 * MHD_add_connection returns (0.9) or in its next run (1.0). If libmicrohttpd cannot take the
 * socket, it closes the socket; it then has called arrival_on_connection for the start and the end
 * of the connection, or not at all. */
static void arrival_admit(struct connection *connection)
{
    struct io_thread *thread = connection->thread;
    const int fd = connection->fd; /* a call that fails may have freed the connection */
    list_append(&thread->arriving, &connection->arriving);
    if (MHD_add_connection(speaks_tls(connection) ? thread->tls_mhd : thread->mhd, fd,
                           (struct sockaddr *)&connection->peer_address,
                           connection->peer_length) == MHD_YES)
        return;
    if (take_arriving(thread, fd) == connection)
        arrival_end_connection(connection);
}

void arrival_end_untaken(struct io_thread *thread)
{
    struct list_item *item;
    while ((item = list_take_first(&thread->arriving)) != NULL)
        arrival_end_connection(OWNER_OF(item, struct connection, arriving));
}

/* Runs on the bulk thread that a connection has been moved to. */
static void arrival_begin_in_bulk(struct inbox_message *message)
{
    struct connection *connection = OWNER_OF(message, struct connection, arrival);
    connection_watch(connection);
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

/* ---- waiting for the first bytes ---- */

/* Events that one call of epoll_wait returns at most. */
enum { COLLECT_MAX = 64 };

bool arrivals_open(struct arrivals *arrivals)
{
    arrivals->count = 0;
    arrivals->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return arrivals->epoll_fd >= 0;
}

void arrivals_close(struct arrivals *arrivals)
{
    close(arrivals->epoll_fd);
}

bool arrivals_watch(struct arrivals *arrivals, struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(arrivals->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        return false;
    arrivals->count++;
    return true;
}

int arrivals_collect(struct arrivals *arrivals, struct connection *ready[], int capacity)
{
    struct epoll_event events[COLLECT_MAX];
    const int count =
        epoll_wait(arrivals->epoll_fd, events, capacity < COLLECT_MAX ? capacity : COLLECT_MAX, 0);
    if (count < 0)
        return 0;
    for (int i = 0; i < count; i++) {
        ready[i] = events[i].data.ptr;
        (void)epoll_ctl(arrivals->epoll_fd, EPOLL_CTL_DEL, ready[i]->fd, NULL);
        arrivals->count--;
    }
    return count;
}

/* ---- decisions by the first bytes ---- */

/* Refuses a connection that does not begin with an HTTP request, or with a TLS handshake where the
 * daemon speaks TLS: libmicrohttpd would close such a connection without an answer, or wait. The
 * answer is 400, and the refusal is in the access log and the metrics. The bytes that the client
 * has sent stay unread, and the connection lingers, so that a client that is still sending does not
 * lose the answer to a TCP reset. */
static void arrival_refuse(struct connection *connection, char first)
{
    struct io_thread *thread = connection->thread;
    struct request request = {
        .server = thread->server,
        .config = &thread->options.newest->config,
        .thread = thread,
        .connection = connection,
        .tenant = "", /* no token has been read */
        .started_ns = clock_now_ns(),
    };
    if (speaks_tls(connection))
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "this address speaks TLS; use a URL that begins with https://");
    else if (first == TLS_HANDSHAKE_RECORD)
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "this is TLS, and this address speaks HTTP in the clear; use a URL that begins "
                  "with http://");
    else
        fault_set(&request.fault, GEMMD_ERR_MALFORMED, NULL,
                  "the request line is malformed; it is a method, a path and HTTP/1.1, with one "
                  "space between each");
    connection_request_id(connection, request.id);
    request.status = error_status(request.fault.code);
    request.response_bytes = connection_send_fault(connection->fd, &request.fault, request.id);
    request_record(&request, true, clock_now_ns());
    shutdown(connection->fd, SHUT_WR);
    lingering_add(thread->server->lingering, connection->fd);
    arrival_close(connection);
}

bool arrival_can_be_request(const char *head, uint64_t length)
{
    const char *p = head, *end = head + length;
    while (p < end && (*p == '\r' || *p == '\n'))
        p++;
    const char *method = p;
    while (p<end && * p> ' ' && *p <= '~')
        p++;
    return p == end || (p > method && *p == ' ');
}

uint64_t arrival_announced_bytes(const char *head, uint64_t length)
{
    static const char name[] = "\nContent-Length:";
    const char *end = head + length;
    for (const char *line = head; (line = memchr(line, '\n', (size_t)(end - line))) != NULL;
         line++) {
        if ((size_t)(end - line) < sizeof name || line[1] == '\r' || line[1] == '\n')
            return 0; /* the head is incomplete, or ends here */
        if (strncasecmp(line, name, sizeof name - 1) != 0)
            continue;
        uint64_t bytes = 0;
        const char *digit = line + sizeof name - 1;
        while (digit < end && *digit == ' ')
            digit++;
        for (; digit < end && *digit >= '0' && *digit <= '9' && bytes < UINT64_MAX / 100; digit++)
            bytes = bytes * 10 + (uint64_t)(*digit - '0');
        return bytes;
    }
    return 0;
}

/* Whether the first bytes can be those of a TLS handshake, if the connection must begin with one,
 * or of an HTTP request. */
static bool can_begin_so(const struct connection *connection, const char *head, uint64_t bytes)
{
    if (speaks_tls(connection))
        return head[0] == TLS_HANDSHAKE_RECORD;
    return arrival_can_be_request(head, bytes);
}

/* Decides about a connection by its first bytes. With TLS the head cannot be read yet. */
static void arrival_route(struct connection *connection, const char *head, uint64_t bytes)
{
    if (!can_begin_so(connection, head, bytes))
        arrival_refuse(connection, head[0]);
    else if (!speaks_tls(connection) && arrival_announced_bytes(head, bytes) >= BULK_BYTES &&
             take_bulk_place(connection->thread))
        arrival_move_to_bulk(connection);
    else
        arrival_admit(connection);
}

/* ---- memory that a client shares ---- */

/* The control buffer's alignment gives it room for two descriptors, even if only one is expected.
 * The kernel closes all further descriptors. */
enum { DESCRIPTORS_MAX = 2 };

struct received {
    int fds[DESCRIPTORS_MAX];
    uint32_t count;
    bool more; /* the message had more descriptors than there was room for */
};

static void read_descriptors(struct msghdr *message, struct received *received)
{
    received->more = (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && received->count < DESCRIPTORS_MAX; i++)
            memcpy(&received->fds[received->count++], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
    }
}

/* Reads an empty line and the descriptors that it carries. Returns false if the received bytes are
 * not an empty line. */
static bool receive_descriptors(int socket, struct received *received)
{
    char line[2];
    union {
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {line, sizeof line};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recv(socket, line, sizeof line, MSG_PEEK | MSG_DONTWAIT) != sizeof line ||
        memcmp(line, "\r\n", sizeof line) != 0 ||
        recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return false;
    read_descriptors(&message, received);
    return true;
}

static void memory_mapped(struct shm_offer *offer)
{
    struct connection *connection = offer->user_data;
    inbox_post(&connection->thread->inbox, &connection->arrival);
}

enum memory_taken {
    MEMORY_NONE, /* there is nothing to wait for */
    /* The memfd is being mapped. connection->arrival, whose `act` the caller has set, is posted to
     * the I/O thread when connection->memory holds the mapping or the reason why there is none. */
    MEMORY_AWAITED,
    MEMORY_FAILED /* memory ran out; the caller has to close the connection */
};

/* Reads an empty line at the start of a new connection, if one has arrived, and takes the memfd
 * that the line carries. */
static enum memory_taken take_memory(struct connection *connection)
{
    struct http_server *server = connection->thread->server;
    const bool takes_memory = connection->thread->options.newest->config.shm_memfd;
    struct received received = {.count = 0};
    if (connection->memory != NULL || !receive_descriptors(connection->fd, &received) ||
        received.count == 0)
        return MEMORY_NONE;
    struct shm_offer *offer = takes_memory ? calloc(1, sizeof *offer) : NULL;
    connection->memory = offer;
    if (offer != NULL && received.count == 1 && !received.more) {
        offer->kind = SHM_MEMFD;
        offer->fd = received.fds[0];
        offer->done = memory_mapped;
        offer->user_data = connection;
        shm_store_map(server->shm_store, offer);
        return MEMORY_AWAITED;
    }
    for (uint32_t i = 0; i < received.count; i++)
        close(received.fds[i]);
    if (offer != NULL)
        fault_set(&offer->fault, GEMMD_ERR_MALFORMED, NULL,
                  "more than one descriptor came with the connection's first line");
    return offer == NULL && takes_memory ? MEMORY_FAILED : MEMORY_NONE;
}

/* ---- arrival ---- */

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

static void arrival_continue_mapped(struct inbox_message *message);

/* Goes on with a connection that libmicrohttpd has not been given, as far as its first bytes have
 * arrived. */
static void arrival_decide(struct connection *connection)
{
    char head[HEAD_BYTES];
    ssize_t got = peek_head(connection, head);
    if (connection->peer_address.ss_family == AF_UNIX && starts_with_empty_line(head, got)) {
        connection->arrival.act = arrival_continue_mapped;
        const enum memory_taken taken = take_memory(connection);
        if (taken == MEMORY_AWAITED)
            return; /* arrival_continue_mapped continues when the memory is mapped */
        if (taken == MEMORY_FAILED) {
            arrival_close(connection);
            return;
        }
        got = peek_head(connection, head);
    }
    if (got < 0 && errno == EAGAIN && arrivals_watch(&connection->thread->arrivals, connection))
        return; /* arrival_take_ready continues when bytes have arrived */
    if (got > 0)
        arrival_route(connection, head, (uint64_t)got);
    else
        arrival_admit(connection); /* libmicrohttpd handles an end or an error of the connection */
}

static void arrival_continue_mapped(struct inbox_message *message)
{
    arrival_decide(OWNER_OF(message, struct connection, arrival));
}

/* The first bytes are waited for even if they have arrived already, so that arrival_take_ready
 * bounds how many connections begin in an iteration. */
static void arrival_begin(struct inbox_message *message)
{
    struct connection *connection = OWNER_OF(message, struct connection, arrival);
    connection_watch(connection);
    if (!arrivals_watch(&connection->thread->arrivals, connection))
        arrival_decide(connection);
}

void arrival_take_ready(struct io_thread *thread)
{
    struct connection *ready[NEW_CONNECTIONS_PER_ITERATION];
    const int most =
        thread->receiving > 0 ? NEW_CONNECTIONS_BESIDE_BODIES : NEW_CONNECTIONS_PER_ITERATION;
    const int count = arrivals_collect(&thread->arrivals, ready, most);
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
