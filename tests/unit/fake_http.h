/*
 * fake_http.h - an HTTP server that follows a script, to see what a client makes of it.
 *
 * Listens on a free port of 127.0.0.1 and serves all connections from one thread of its own. The
 * n-th request, over all connections, gets the n-th act; the last act serves all that follow.
 */
#ifndef TESTS_UNIT_FAKE_HTTP_H
#define TESTS_UNIT_FAKE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_then {
    FAKE_KEEP,  /* serve the connection's next request */
    FAKE_CLOSE, /* close it in good order */
    FAKE_RESET, /* reset it */
    FAKE_HANG   /* neither read nor write, and leave it open */
};

#define FAKE_ALL SIZE_MAX

struct fake_act {
    const char *head;    /* status line and headers, without the empty line; NULL: no answer */
    const void *payload; /* borrowed */
    size_t payload_bytes;
    size_t take_bytes; /* of the request's body before answering; a client that expects 100 Continue
                          gets it unless this is 0 */
    enum fake_then then;
    bool echo; /* the payload is the front of the request's body */
};

struct fake_request {
    char head[4096]; /* request line and headers */
    unsigned char *body;
    size_t body_bytes;   /* that were read */
    uint32_t connection; /* number of its connection, in the order of their coming */
};

struct fake_server;

/* Starts a server; `acts` are borrowed. Fails the test if it can't. */
struct fake_server *fake_start(const struct fake_act *acts, size_t count);
/* "http://127.0.0.1:PORT" */
const char *fake_url(const struct fake_server *server);
/* Ends the thread and closes all connections; what was requested can then be looked at. */
void fake_stop(struct fake_server *server);
/* Those whose heads have arrived; also while the thread runs. */
size_t fake_request_count(const struct fake_server *server);
const struct fake_request *fake_request(const struct fake_server *server, size_t number);
void fake_free(struct fake_server *server);

/* The head of a right answer: a matrix of m x n of type `dtype` in `bytes` bytes. Written into
 * `out` and returned. */
enum { FAKE_HEAD_MAX = 512 };
const char *fake_gemm_head(char out[FAKE_HEAD_MAX], uint64_t m, uint64_t n, const char *dtype,
                           size_t bytes);

#endif
