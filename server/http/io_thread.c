#include "server/http/io_thread.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/daemon.h"
#include "server/http/request.h"
#include "server/net/lingering.h"
#include "server/net/listen.h"
#include "server/net/peer_counts.h"

/* How often the loop is run at the end, so that the answers it was left with have a chance. */
enum { LAST_TURNS = 4 };

static void uncount(struct io_thread *thread, const struct connection *connection)
{
    atomic_fetch_sub(&thread->load, 1);
    atomic_fetch_sub(&thread->daemon->connections, 1);
    peer_counts_remove(thread->daemon->peers, (const struct sockaddr *)&connection->peer_address);
}

static void connection_opened(struct io_thread *thread, void **context)
{
    struct connection *connection = *context = thread->arriving;
    thread->arriving = NULL;
    connection->next = thread->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    thread->connections = connection;
}

/* libmicrohttpd closes the descriptor next. */
static void connection_closed(struct io_thread *thread, struct connection *connection)
{
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        thread->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->linger)
        lingering_add(thread->daemon->lingering, connection->fd);
    uncount(thread, connection);
    free(connection);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)mhd;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_opened(cls, context);
    else
        connection_closed(cls, *context);
}

/* The messages. */
static void arrive(struct inbox_message *message)
{
    struct connection *connection = INBOX_OWNER(message, struct connection, arrival);
    struct io_thread *thread = connection->thread;
    thread->arriving = connection;
    /* Calls on_connection, unless it cannot take the socket; it closes it then. */
    (void)MHD_add_connection(thread->mhd, connection->fd,
                             (struct sockaddr *)&connection->peer_address, connection->peer_length);
    if (thread->arriving == NULL)
        return;
    thread->arriving = NULL;
    uncount(thread, connection);
    free(connection);
}

static void check(struct inbox_message *message)
{
    struct io_thread *thread = INBOX_OWNER(message, struct io_thread, check);
    uint64_t now_ns = clock_now_ns();
    atomic_store(&thread->checking, false);
    for (struct connection *c = thread->connections; c != NULL; c = c->next)
        connection_check(c, thread->daemon, now_ns);
}

static void stop(struct inbox_message *message)
{
    INBOX_OWNER(message, struct io_thread, stop)->stopping = true;
}

static bool has_more_to_do(struct MHD_Daemon *mhd)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    return MHD_get_timeout(mhd, &timeout_ms) == MHD_YES && timeout_ms == 0;
}

static void wait_for_work(struct io_thread *thread, int mhd_fd)
{
    int due_ms = log_buffer_due_ms(&thread->log_buffer, clock_now_ns());
    if (due_ms == 0) {
        log_flush(thread->daemon->log, &thread->log_buffer);
        due_ms = -1;
    }
    inbox_wait(&thread->inbox, mhd_fd, due_ms);
}

static void turn(struct io_thread *thread)
{
    thread->busy = thread->moved;
    thread->moved = false;
    MHD_run(thread->mhd);
}

static void *run(void *argument)
{
    struct io_thread *thread = argument;
    int fd = MHD_get_daemon_info(thread->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    char name[16];
    snprintf(name, sizeof name, "io-%" PRIu32, thread->index);
    pthread_setname_np(pthread_self(), name);

    while (!thread->stopping) {
        if (!has_more_to_do(thread->mhd))
            wait_for_work(thread, fd);
        inbox_act(&thread->inbox);
        turn(thread);
    }
    for (int i = 0; i < LAST_TURNS; i++)
        turn(thread);
    return NULL;
}

static struct MHD_Daemon *start_mhd(struct io_thread *thread, const struct config *config)
{
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
                            NULL, NULL, request_handle, thread, MHD_OPTION_URI_LOG_CALLBACK,
                            request_first_line, thread, MHD_OPTION_NOTIFY_COMPLETED,
                            request_completed, thread, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                            thread, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)config->connection_buffer_bytes, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)config->max_connections, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                            MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
}

enum gemmd_error io_thread_start(struct daemon *daemon, uint32_t index, struct io_thread **out,
                                 struct fault *fault)
{
    struct io_thread *thread = aligned_alloc(_Alignof(struct io_thread), sizeof *thread);
    if (thread == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for an I/O thread");
    memset(thread, 0, sizeof *thread);
    thread->daemon = daemon;
    thread->index = index;
    thread->shard = metrics_shard(daemon->metrics, index);
    thread->check.act = check;
    thread->stop.act = stop;
    if (getrandom(&thread->id_state, sizeof thread->id_state, 0) != sizeof thread->id_state)
        thread->id_state = clock_now_ns() ^ ((uint64_t)index << 56);

    if (!inbox_open(&thread->inbox))
        goto no_inbox;
    thread->mhd = start_mhd(thread, &daemon->config);
    if (thread->mhd == NULL)
        goto no_mhd;
    if (pthread_create(&thread->thread, NULL, run, thread) != 0)
        goto no_thread;
    *out = thread;
    return GEMMD_OK;

no_thread:
    MHD_stop_daemon(thread->mhd);
no_mhd:
    inbox_close(&thread->inbox);
no_inbox:
    free(thread);
    return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "an I/O thread did not start");
}

void io_thread_stop(struct io_thread *thread)
{
    if (thread == NULL)
        return;
    inbox_post(&thread->inbox, &thread->stop);
    pthread_join(thread->thread, NULL);
    MHD_stop_daemon(thread->mhd);
    log_flush(thread->daemon->log, &thread->log_buffer);
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
        atomic_fetch_sub(&thread->daemon->connections, 1);
        peer_counts_remove(thread->daemon->peers, peer);
        return;
    }
    connection->thread = thread;
    connection->fd = fd;
    connection->phase = CONNECTION_HEADERS;
    connection->since_ns = clock_now_ns();
    memcpy(&connection->peer_address, peer, peer_length);
    connection->peer_length = peer_length;
    listen_peer_text(fd, connection->peer, sizeof connection->peer);
    connection->arrival.act = arrive;
    inbox_post(&thread->inbox, &connection->arrival);
}

void io_thread_check(struct io_thread *thread)
{
    if (!atomic_exchange(&thread->checking, true))
        inbox_post(&thread->inbox, &thread->check);
}
