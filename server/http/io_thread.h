/*
 * io_thread.h - an I/O thread: one libmicrohttpd daemon on one thread, with the connections that
 * were handed to the thread.
 *
 * libmicrohttpd's own thread pool leaves most connections on few threads. So each I/O thread runs a
 * libmicrohttpd daemon of its own that has no listening socket, and the HTTP server hands accepted
 * connections to the threads. io_thread.c, not libmicrohttpd, creates the threads and runs their
 * loops ("external" polling). Other threads reach an I/O thread through its inbox, for example with
 * a new connection, a finished request or a check for slow clients. Nothing about a connection is
 * shared between threads.
 *
 * There are two kinds of I/O threads. Each new connection is handed to a thread of the first kind.
 * A connection whose first request has a large body is moved to a thread of the second kind, a bulk
 * thread, before libmicrohttpd is given the connection. So small requests do not pay for the large
 * buffers of bulk connections, and no small request waits for a large copy.
 */
#ifndef SERVER_HTTP_IO_THREAD_H
#define SERVER_HTTP_IO_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/heartbeat.h"
#include "server/base/inbox.h"
#include "server/config/config.h"
#include "server/http/arrival.h"
#include "server/http/checks.h"
#include "server/http/connection.h"
#include "server/http/read_ahead.h"
#include "server/http/spares.h"
#include "server/http/waiters.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

struct MHD_Daemon;
struct http_server;
struct request;

/* The bodies of refused requests, which the thread reads and drops (request_parts.h). */
struct dropped_bodies {
    struct list suspended; /* not being read yet; in the order of arrival */
    uint64_t began_ns;     /* when the last of `suspended` began to be read */
    uint32_t reading;      /* bodies that are being read */
};

struct io_thread {
    struct http_server *server; /* borrowed */
    struct MHD_Daemon *mhd;
    struct MHD_Daemon *tls_mhd; /* for connections with TLS; NULL: there are none */
    struct metrics_shard *shard;
    uint32_t index;
    pthread_t thread;

    /* Only the thread itself uses the fields from here to `services`. */
    struct thread_options options;
    uint64_t id_state;             /* of the generator of request ids */
    struct checks checks;          /* has the open connections */
    struct arrivals arrivals;      /* connections whose first bytes have not arrived yet */
    struct waiters waiters;        /* requests whose work other threads have */
    struct spares requests, calls; /* memory for requests and for their endpoints' state */
    struct read_ahead_buffers ahead_buffers; /* for connections with TLS */
    uint64_t moved_ns;                       /* when `moved` was last true; monotonic clock */
    struct list arriving; /* connections that libmicrohttpd was given and has not announced yet */
    bool moved;           /* a request advanced in this iteration of the loop */
    /* Iterations in which no request has advanced. libmicrohttpd 0.9 wants to run again at once as
     * long as a connection can neither be read nor written, for example because the size line of a
     * chunk does not fit in the buffer. The thread pauses then, until the connection's time limit
     * ends it. */
    uint32_t still_iterations;
    struct dropped_bodies dropped_bodies;
    uint32_t receiving;        /* accepted bodies that are being received */
    struct list long_calls;    /* requests whose calls take long (endpoint.h), in their order */
    bool made_long_call;       /* in this iteration of the loop */
    struct list reading_heads; /* requests whose headers a lenient parser reads (guard.h) */
    bool busy; /* a request advanced in the last iteration: the thread is not about to sleep */
    bool stopping;
    struct log_buffer log_buffer; /* lines of the access log */
    struct list streams;          /* answers without an end (stream.h) */
    void *services;               /* the thread's own part of the endpoints' services */

    /* Any thread uses the fields from here on. They have cache lines of their own, because other
     * threads read them while this thread works. */
    _Alignas(128) struct inbox inbox;
    atomic_uint load;            /* connections handed to this thread and not closed */
    atomic_uint active_requests; /* from first line to last byte sent; this thread writes it */
    atomic_bool checking;        /* `check` is in the inbox */
    struct heartbeat heartbeat;  /* beats at each check */
    struct inbox_message check, stop;
};

/* Starts the thread with number `index`, which writes metrics shard `index`. Threads with numbers
 * from server->bulk_thread_first on give each connection a buffer of --bulk-buffer, the others one
 * of --connection-buffer. GEMMD_ERR_OUT_OF_MEMORY, or GEMMD_ERR_INTERNAL if the thread cannot be
 * started. Main thread. */
enum gemmd_error io_thread_start(struct http_server *server, uint32_t index,
                                 struct io_thread **thread, struct fault *fault);
/* Stops the thread after the messages in its inbox, and ends all its connections. Requests whose
 * work is not done by then are answered with 503. Main thread; blocks until the thread has ended.
 */
void io_thread_stop(struct io_thread *thread);
/* Frees a thread that was stopped. No other thread may still have work of its requests. NULL is
 * allowed. */
void io_thread_destroy(struct io_thread *thread);

/* Makes the thread check the time limits of its connections (checks.h). The main thread
 * calls this a few times a second. */
void io_thread_check(struct io_thread *thread);

#endif
