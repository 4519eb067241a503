/*
 * request.h - one HTTP request, from its first line to the last byte of its answer.
 *
 * The states of a request, in order. A request is in the hands of its I/O thread in all states but
 * REQUEST_WORKING:
 *   HEADERS     the request line has arrived
 *   BODILESS    the headers are in and no body follows. libmicrohttpd closes the connection of a
 *               request that is answered at its headers, so such a request waits for
 * libmicrohttpd's next call RECEIVING   the request is accepted and its body is arriving DISCARDING
 * the request is refused, or its body is of no use. The rest of the body is read and dropped before
 * the answer, so that a client with a small body keeps its connection WORKING     other threads
 * work on the request. libmicrohttpd asks in every turn of the I/O thread's loop whether there is
 * an answer. A thread that is about to sleep suspends the connections of unfinished requests first,
 * which costs system calls that a busy thread does without ANSWERED    libmicrohttpd has the answer
 *
 * A request in state WORKING ends before its work does if its deadline passes (504, at once), its
 * client disconnects or the daemon gives up. Work that has not begun is taken back then and never
 * runs. Work that runs already stays handed over, with the request's memory, until it comes back;
 * its result is dropped.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/http/coding.h"
#include "server/http/endpoint.h"
#include "server/http/prefer.h"
#include "server/http/request_id.h"
#include "server/http/waiters.h"

struct connection;
struct http_server;
struct inflater;
struct io_thread;

enum request_state {
    REQUEST_HEADERS,
    REQUEST_BODILESS,
    REQUEST_RECEIVING,
    REQUEST_DISCARDING,
    REQUEST_WORKING,
    REQUEST_ANSWERED
};

/* How far the work of a request has come, for its I/O thread and the thread that ends the work. */
enum request_progress {
    PROGRESS_RUNNING,
    PROGRESS_AWAITED, /* the I/O thread does not look any more: its inbox has to be told */
    PROGRESS_DONE
};

enum { REQUEST_PATH_MAX = 256, REQUEST_NAME_MAX = 135 };

struct request {
    /* --- Cleared for each request. --- */
    struct http_server *server;
    struct io_thread *thread;
    struct connection *connection;
    struct MHD_Connection *mhd;
    const struct endpoint *endpoint; /* NULL until the request is routed */
    void *call;                      /* the endpoint's state, of endpoint->call_bytes */
    const char *tenant;              /* the token's tenant; "" without tokens. Borrowed */
    uint32_t tenant_number;          /* the same tenant; 0 without tokens */
    const char *rest;                /* of the path after the endpoint's own, decoded; borrowed */

    enum request_state state;
    _Atomic enum request_progress progress;
    struct inbox_message done;   /* to the I/O thread, if the work's end is AWAITED */
    struct waiter among_waiters; /* the thread's, while WORKING */
    bool handed_over;            /* other threads have the work */
    bool awaited;                /* `done` has come, or will come */
    bool suspended;              /* libmicrohttpd does not look at the connection */
    bool given_up;               /* to be answered with `fault` before the work is done */
    bool abandoned;              /* the connection ended first: only `release` is left to do */

    bool escapes_zero, escapes_slash; /* the path has %00 or %2F in it */
    bool chunked;                     /* the length on the wire is not known */
    bool expects_continue;            /* the client waits for 100 Continue */
    bool refuses_coding;              /* the body's Content-Encoding is not accepted */
    bool sized;                /* the length of the decompressed body is known at the headers */
    enum coding coding;        /* of the body on the wire */
    uint64_t content_length;   /* on the wire; 0 if chunked */
    uint64_t received_bytes;   /* on the wire, so far */
    uint64_t body_bytes;       /* of the decompressed body, if `sized`; else 0 */
    struct inflater *inflater; /* from the first byte of a compressed body on */

    uint32_t retry_after_s; /* for Retry-After, from whoever set `fault`; 0: endpoint's choice */
    int status;             /* of the answer */
    uint64_t response_bytes;
    uint64_t started_ns, received_ns, sending_ns;

    /* --- Not cleared: empty at first by their first element. --- */
    struct fault fault;              /* why the request was refused or failed; GEMMD_OK: neither */
    char id[REQUEST_ID_MAX + 1];     /* X-Request-Id */
    char method[16];                 /* cut to fit */
    char name[REQUEST_NAME_MAX + 1]; /* what stands for the {...} of the endpoint's path */
    char path[REQUEST_PATH_MAX];     /* as sent, cut to fit; for the log */
};

/* libmicrohttpd's callbacks; `cls` is the io_thread. */
void *request_first_line(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **context);
void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);

/* Ends the wait for a request's work; the I/O thread's waiters call it. */
void request_give_up(struct waiter *waiter, enum waiter_end why);

/* The rest is for endpoints, on the request's I/O thread unless said otherwise. */

/* Refuses with request->fault: at once if the client has sent no body or waits for 100 Continue,
 * after dropping the body if it is small, else at once and closing the connection. */
void request_refuse(struct request *request);
/* Accepts the body, which may take until the deadline (0: none). */
void request_receive(struct request *request, uint64_t deadline_ns);
/* Changes the deadline of the request (0: none). */
void request_set_deadline(struct request *request, uint64_t deadline_ns);
/* Turns to WORKING. Whoever the request is handed to next must call request_wake, once, unless the
 * request is withdrawn. */
void request_hand_over(struct request *request);
/* The work is done: the endpoint's `answer` is called next. Any thread; the request may be gone
 * when this returns. */
void request_wake(struct request *request);

/* Whether the client announced a body that the endpoint has not accepted. */
bool request_has_body(const struct request *request);
/* False once the connection was ended because its client was too slow or has disconnected. */
bool request_is_connected(const struct request *request);
/* The value of a header field, or NULL. Borrowed. */
const char *request_header(const struct request *request, const char *name);
/* What the Prefer fields of the request say. */
struct preferences request_preferences(const struct request *request);
/* Takes one parameter of the query; false: request->fault says why not, and no more are shown. */
typedef bool request_parameter(void *context, const char *name, const char *value);
/* Shows all parameters of the query, in order, decoded. A parameter without = has the value "".
 * Returns request->fault.code: GEMMD_ERR_MALFORMED for a parameter that contains a zero byte, or
 * what `take` set. */
enum gemmd_error request_parameters(struct request *request, request_parameter *take,
                                    void *context);
/* Gives the request its id, if it has none. The headers must be in, as far as they ever will be. */
void request_choose_id(struct request *request);

#endif
