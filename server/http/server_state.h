/*
 * server_state.h - the state of the HTTP server, which the files of server/http read.
 *
 * The functions that start, feed and stop the server are in server.h.
 */
#ifndef SERVER_HTTP_SERVER_STATE_H
#define SERVER_HTTP_SERVER_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
    struct config_in_force *options; /* an I/O thread reads copies (thread_options.h) */
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
    bool lenient_parser; /* the guard checks the lines of each head (guard.h) */
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

#endif
