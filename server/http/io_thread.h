/*
 * io_thread.h - one libmicrohttpd daemon on one thread, with the connections given to it.
 *
 * libmicrohttpd's own thread pool leaves most connections on few threads, so each thread here
 * is a daemon of its own without a listening socket, and the acceptor hands connections out. The
 * thread is ours too (libmicrohttpd's "external" polling): what has to be done on it, be it a new
 * connection, a finished request or a check for late clients, comes through its inbox, so that
 * nothing about a connection is shared between threads.
 *
 * There are two kinds. All connections come to a thread of the first kind; those whose first
 * request has a large body are moved to one of the bulk threads before libmicrohttpd sees them. So
 * neither's buffers cost the other, and no small request waits for a large copy.
 */
#ifndef SERVER_HTTP_IO_THREAD_H
#define SERVER_HTTP_IO_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/http/connection.h"
#include "server/http/new_connections.h"
#include "server/http/spares.h"
#include "server/http/waiters.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

struct MHD_Daemon;
struct http_server;
struct request;

struct io_thread {
    struct http_server *server; /* borrowed */
    struct MHD_Daemon *mhd;
    struct metrics_shard *shard;
    uint32_t index;
    pthread_t thread;

    /* Only the thread itself touches these. */
    uint64_t id_state;               /* of the generator of request ids */
    struct connection *connections;  /* open ones */
    struct new_connections arrivals; /* those that libmicrohttpd does not know yet */
    struct waiters waiters;          /* requests whose work is in other hands */
    struct spares requests, calls;   /* memory for requests and their endpoints' state */
    uint64_t moved_ns;               /* when `moved` was last true */
    struct connection *arriving;     /* given to libmicrohttpd, not yet announced by it */
    bool moved;                      /* something came or went in this turn of the loop */
    bool busy;                       /* ... in the last one: it is not about to sleep */
    bool stopping;
    struct log_buffer log_buffer; /* its access log */
    void *services;               /* its own part of the endpoints' services */

    /* Any thread, on lines of their own: others look at them while this thread works. */
    _Alignas(128) struct inbox inbox;
    atomic_uint load;            /* connections handed to this thread and not closed */
    atomic_uint active_requests; /* from the first line to the last byte sent; written here */
    atomic_bool checking;        /* `check` is in the inbox */
    struct inbox_message check, stop;
};

/* The one of `threads` with the fewest connections; `turn` breaks ties. */
struct io_thread *io_thread_least_loaded(struct io_thread *const *threads, uint32_t count,
                                         uint32_t turn);

/* Starts thread number `index`; it uses metrics shard `index`. Threads from
 * server->bulk_thread_first on have --bulk-buffer for a connection, the others
 * --connection-buffer. */
enum gemmd_error io_thread_start(struct http_server *server, uint32_t index,
                                 struct io_thread **thread, struct fault *fault);
/* Stops once it has done what is in its inbox; requests whose work is not done by then are answered
 * with 503. Ends all connections. */
void io_thread_stop(struct io_thread *thread);
/* Frees a thread that was stopped. No work of its requests may be in other hands. NULL is allowed.
 */
void io_thread_destroy(struct io_thread *thread);

/* Hands over an accepted, non-blocking socket (acceptor's thread). Owned by the thread from
 * now on, also on failure. It has been counted in server->connections and server->peers, which
 * is undone when it closes. */
void io_thread_add(struct io_thread *thread, int fd, const struct sockaddr *peer,
                   socklen_t peer_length);

/* Makes the thread end the connections that have waited too long (main thread, a few times a
 * second). */
void io_thread_check(struct io_thread *thread);

#endif
