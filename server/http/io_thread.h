/*
 * io_thread.h - one libmicrohttpd daemon on one thread, with the connections given to it.
 *
 * libmicrohttpd's own thread pool leaves most connections on few threads, so each thread here
 * is a daemon of its own without a listening socket, and the acceptor hands connections out.
 */
#ifndef SERVER_HTTP_IO_THREAD_H
#define SERVER_HTTP_IO_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/http/connection.h"
#include "server/observe/metrics.h"

struct MHD_Daemon;

struct io_thread {
    struct daemon *daemon; /* borrowed */
    struct MHD_Daemon *mhd;
    struct metrics_shard *shard;
    uint32_t index;
    uint64_t id_state; /* of the generator of request ids; this thread only */
    atomic_uint load;  /* connections handed to this thread and not closed */
    pthread_mutex_t lock;
    struct connection *connections; /* under lock */
};

/* Starts thread number `index`; it uses metrics shard `index`. */
enum gemmd_error io_thread_start(struct daemon *daemon, uint32_t index, struct io_thread **thread,
                                 struct fault *fault);
/* No request may be suspended any more (libmicrohttpd aborts otherwise). */
void io_thread_stop(struct io_thread *thread);

/* Hands over an accepted, non-blocking socket (acceptor's thread). Owned by the thread from
 * now on, also on failure. It has been counted in daemon->connections and daemon->peers, which
 * is undone when it closes. */
void io_thread_add(struct io_thread *thread, int fd, const struct sockaddr *peer,
                   socklen_t peer_length);

/* Ends the connections that have waited too long (main thread, a few times a second). */
void io_thread_check(struct io_thread *thread, uint64_t now_ns);

#endif
