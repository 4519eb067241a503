#include "server/http/io_thread.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/daemon.h"
#include "server/http/request.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/peer_counts.h"

static void connection_open(struct io_thread *thread, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *connection = calloc(1, sizeof *connection);
    *context = connection;
    if (connection == NULL)
        return; /* request_begin answers 503 */
    connection->thread = thread;
    connection->fd = info->connect_fd;
    atomic_init(&connection->since_ns, clock_now_ns());
    atomic_init(&connection->phase, CONNECTION_HEADERS);
    listen_peer_text(connection->fd, connection->peer, sizeof connection->peer);
    socklen_t length = sizeof connection->peer_address;
    (void)getpeername(connection->fd, (struct sockaddr *)&connection->peer_address, &length);

    pthread_mutex_lock(&thread->lock);
    connection->next = thread->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    thread->connections = connection;
    pthread_mutex_unlock(&thread->lock);
}

static void connection_closed(struct io_thread *thread, struct connection *connection)
{
    struct daemon *daemon = thread->daemon;
    atomic_fetch_sub(&thread->load, 1);
    atomic_fetch_sub(&daemon->connections, 1);
    if (connection == NULL)
        return;
    /* After this the watchdog cannot see the descriptor, which libmicrohttpd closes next. */
    pthread_mutex_lock(&thread->lock);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        thread->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    pthread_mutex_unlock(&thread->lock);
    peer_counts_remove(daemon->peers, (struct sockaddr *)&connection->peer_address);
    if (connection->linger)
        lingering_add(daemon->lingering, connection->fd);
    free(connection);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_open(cls, mhd, context);
    else
        connection_closed(cls, *context);
}

enum gemmd_error io_thread_start(struct daemon *daemon, uint32_t index, struct io_thread **out,
                                 struct fault *fault)
{
    struct io_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for an I/O thread");
    thread->daemon = daemon;
    thread->index = index;
    thread->shard = metrics_shard(daemon->metrics, index);
    pthread_mutex_init(&thread->lock, NULL);
    if (getrandom(&thread->id_state, sizeof thread->id_state, 0) != sizeof thread->id_state)
        thread->id_state = clock_now_ns() ^ ((uint64_t)index << 56);

    thread->mhd = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC |
            MHD_ALLOW_SUSPEND_RESUME,
        0, NULL, NULL, request_handle, thread, MHD_OPTION_URI_LOG_CALLBACK, request_first_line,
        thread, MHD_OPTION_NOTIFY_COMPLETED, request_completed, thread,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, thread, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)daemon->config.connection_buffer_bytes, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)daemon->config.max_connections, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
    if (thread->mhd == NULL) {
        pthread_mutex_destroy(&thread->lock);
        free(thread);
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "libmicrohttpd did not start");
    }
    *out = thread;
    return GEMMD_OK;
}

void io_thread_stop(struct io_thread *thread)
{
    if (thread == NULL)
        return;
    MHD_stop_daemon(thread->mhd);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

void io_thread_add(struct io_thread *thread, int fd, const struct sockaddr *peer,
                   socklen_t peer_length)
{
    atomic_fetch_add(&thread->load, 1);
    /* libmicrohttpd closes the socket if it cannot take it. */
    if (MHD_add_connection(thread->mhd, fd, peer, peer_length) != MHD_YES) {
        atomic_fetch_sub(&thread->load, 1);
        atomic_fetch_sub(&thread->daemon->connections, 1);
        peer_counts_remove(thread->daemon->peers, peer);
    }
}

void io_thread_check(struct io_thread *thread, uint64_t now_ns)
{
    pthread_mutex_lock(&thread->lock);
    for (struct connection *c = thread->connections; c != NULL; c = c->next)
        connection_check(c, thread->daemon, now_ns);
    pthread_mutex_unlock(&thread->lock);
}
