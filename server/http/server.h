/*
 * server.h - the HTTP server: its I/O threads, its limits on connections, and its endpoints.
 *
 * The server does not know what endpoints do. The creator of a server hands it a table of endpoints
 * and an opaque pointer to the data that the endpoints use (`services`).
 *
 * The main thread starts and stops the server, and accepts connections for it. All functions run on
 * the main thread, unless their comment says otherwise.
 */
#ifndef SERVER_HTTP_SERVER_H
#define SERVER_HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/base/network.h"
#include "server/config/config.h"
#include "server/http/tokens.h"

struct digester;
struct endpoint;
struct io_thread;
struct lingering;
struct log;
struct metrics;
struct metrics_shard;
struct notable;
struct otlp;
struct peer_counts;
struct shm_store;
struct tls;

/* The stages of a drain. A stage is only ever followed by a later one. */
enum http_stage {
    HTTP_SERVING,
    HTTP_DRAINING, /* not ready any more, but new connections are still accepted (--drain-delay) */
    /* Another process has the listening sockets. Open connections are served, and each is closed
     * after its next answer. */
    HTTP_HANDED_OVER,
    HTTP_CLOSING /* no new connections, no new work; accepted requests are being finished */
};

struct http_server {
    /* The creator of the server sets these fields before http_server_start; all are borrowed. */
    struct config_in_force *options; /* an I/O thread reads copies (struct thread_options) */
    struct log *log;
    struct otlp *otlp;                /* NULL: spans are not exported */
    struct notable *notable;          /* keeps failed and slow requests */
    struct metrics *metrics;          /* I/O thread i writes shard i */
    struct metrics_shard *main_shard; /* written by the thread that accepts connections */
    struct tokens *tokens;            /* NULL: requests need no token */
    struct tls *tls;                  /* NULL: TCP connections are served without TLS */
    struct shm_store *shm_store;      /* the shared memory of connections over Unix sockets */
    struct lingering *lingering;      /* keeps refused connections open for a while */
    /* Lists of endpoints, tried in this order. An endpoint without a path ends a list, NULL ends
     * the table. */
    const struct endpoint *const *routes;
    void *services; /* the data that endpoints use; opaque to the server */
    /* Create and destroy an I/O thread's own part of the services. The part is created before the
     * thread starts (NULL: out of memory), and destroyed after the thread has ended. */
    void *(*thread_services_create)(void *services);
    void (*thread_services_destroy)(void *thread_services);

    /* Only the server changes these fields, except `stage`, which the main loop sets. */
    struct networks trusted; /* of --trusted-proxy */
    bool lenient_parser;     /* the guard checks the lines of each head (guard.h) */
    uint32_t thread_count;
    uint32_t bulk_thread_first; /* threads from here on serve connections with large bodies */
    struct io_thread **threads;
    struct peer_counts *peers;
    struct digester *digester; /* hashes long answers */
    uint64_t call_bytes_max;   /* the largest call_bytes of an endpoint */
    uint32_t next_thread;      /* breaks ties between threads with equally many connections */
    uint64_t id_state;         /* of the generator of request ids for refused connections */
    _Atomic enum http_stage stage;
    atomic_uint connections; /* open connections */
    atomic_uint streams;     /* answers without an end (stream.h) */
    atomic_uint tenant_streams[TENANTS_MAX];
    atomic_uint bulk_connections; /* open connections on bulk threads */
};

/* Computes from the options how many I/O threads there will be (`thread_count`). */
void http_server_plan(struct http_server *server, const struct config *config);
/* Allocates the memory that accepting connections needs, and finds out how libmicrohttpd parses
 * requests, with the errors of guard_parser_find. Nothing is served yet. */
enum gemmd_error http_server_open(struct http_server *server, struct fault *fault);
/* Starts the I/O threads. After a failure http_server_stop and http_server_close still have to be
 * called. */
enum gemmd_error http_server_start(struct http_server *server, struct fault *fault);

/* Takes over an accepted, non-blocking socket. The socket is handed to the I/O thread with the
 * fewest connections. If --max-connections or --max-connections-per-address is reached, the
 * connection is refused with 429 and closed; with TLS it is closed without an answer. */
void http_server_take(struct http_server *server, int fd, const struct sockaddr *peer,
                      socklen_t peer_length);
/* Makes each I/O thread check the time limits of its connections. To be called a few times a
 * second. */
void http_server_check(struct http_server *server);

/* Returns the number of an I/O thread that has made no check since the last call; -1: there is
 * none. Makes each I/O thread check for the next call. */
int32_t http_server_stuck_thread(struct http_server *server);

/* The number of requests between their first line and the last byte of their answer. Any thread. */
uint32_t http_server_active_requests(const struct http_server *server);

/* Ends the I/O threads and all connections. Requests whose work is not done get 503. */
void http_server_stop(struct http_server *server);
/* Frees the memory of http_server_open and http_server_start. No work of a request may be running.
 */
void http_server_close(struct http_server *server);

#endif
