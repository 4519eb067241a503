/*
 * request.h - one HTTP request, from its first line to the last byte of its answer.
 *
 * The states, in order; every request is in its I/O thread's hands but for WORKING:
 *   HEADERS     the first line has arrived
 *   BODILESS    the headers are in and no body follows. An answer given at the headers makes
 *               libmicrohttpd close the connection, so these wait for its next call
 *   RECEIVING   accepted: the body goes into pinned memory
 *   DISCARDING  refused (or the body is of no use): the rest is read and dropped, then answered,
 *               so that a client with a small body keeps its connection
 *   WORKING     others own request->call.work, or request->ready. In every turn of the
 *               thread's loop libmicrohttpd asks whether there is an answer; a thread that would
 *               sleep suspends first what is not done, which costs system calls that a busy one
 *               does without
 *   ANSWERED    the answer is with libmicrohttpd
 *
 * A WORKING request ends before its work does if its deadline passes (504, at once), its client
 * leaves or the daemon gives up. Work that has not begun is taken back then and never runs. What
 * runs already stays handed over, and the request's memory with it, until it comes back; what
 * comes back then is dropped.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/api/compute/compute_call.h"
#include "server/http/coding.h"
#include "server/http/io_thread.h"
#include "server/http/prefer.h"
#include "server/http/request_id.h"
#include "server/http/waiters.h"
#include "server/jobs/jobs.h"
#include "server/scheduler/probe.h"

enum request_state {
    REQUEST_HEADERS,
    REQUEST_BODILESS,
    REQUEST_RECEIVING,
    REQUEST_DISCARDING,
    REQUEST_WORKING,
    REQUEST_ANSWERED
};

/* Of a WORKING request: between its I/O thread and the one that ends the work. */
enum request_progress {
    PROGRESS_RUNNING,
    PROGRESS_AWAITED, /* the I/O thread does not look any more: its inbox has to be told */
    PROGRESS_DONE
};

enum { REQUEST_PATH_MAX = 256, REQUEST_NAME_MAX = 135 };

struct request;
struct infer_call;
struct inflater;
struct region_call;
struct tensor_call;
struct v2_body;

/* What is at a path. `begin` runs once the headers are in: it answers, refuses (request_refuse),
 * or accepts a body (request_receive), or hands over (request_hand_over) where there is none.
 * `chunk` and `submit` are for endpoints that accept bodies: `chunk` takes bytes, which are not
 * compressed any more (false: request->fault says why, the rest is dropped), `submit` runs when the
 * body is complete. `answer`
 * runs when the work is done (again and again, once in each turn of the thread's loop, until it has
 * answered), `release` exactly once at the end. `withdraw` takes back what was handed over; false
 * if it has begun: request_wake will be called, or was. NULL: always so. */
struct endpoint {
    /* "/jobs/{id}": what stands for {id} is in request->name. One that ends in / stands for all
     * below it (request->rest), but for / itself. */
    const char *path;
    const char *allow; /* for 405: "GET, HEAD" */
    enum metrics_op op;
    const struct call_operation *operation; /* what it computes; NULL: nothing */
    bool open;                              /* needs no token */
    void (*begin)(struct request *request);
    bool (*chunk)(struct request *request, const void *bytes, uint64_t length);
    void (*submit)(struct request *request);
    bool (*withdraw)(struct request *request);
    void (*answer)(struct request *request);
    void (*release)(struct request *request);
};

struct request {
    struct daemon *daemon;
    struct io_thread *thread;
    struct connection *connection;
    struct MHD_Connection *mhd;
    const struct endpoint *endpoint; /* NULL until routed */
    enum request_state state;
    _Atomic enum request_progress progress;
    struct inbox_message done;   /* to the I/O thread, if the work's end is AWAITED */
    struct waiter among_waiters; /* the thread's, while WORKING */
    bool handed_over;            /* the work is not back with this thread */
    bool awaited;                /* `done` has come, or will */
    bool suspended;              /* libmicrohttpd does not look at the connection */
    bool given_up;               /* to be answered with request->fault before the work is done */
    bool abandoned;              /* the connection ended first: only `release` is left to do */
    char id[REQUEST_ID_MAX + 1];
    char path[REQUEST_PATH_MAX];      /* as sent, cut; for the log */
    bool escapes_zero, escapes_slash; /* the path has %00 or %2F in it */
    const char *rest;                 /* of the path after the endpoint's own, decoded; borrowed */
    char method[16];
    char name[REQUEST_NAME_MAX + 1]; /* of the resource, where the endpoint's path has a {...} */
    const char *tenant;              /* whose token it has; "" without tokens. Borrowed */
    uint32_t tenant_number;          /* the same; 0 without tokens */
    bool chunked;                    /* the length on the wire is not known */
    bool expects_continue;           /* the client waits for 100 Continue */
    uint64_t content_length;         /* on the wire; 0 if chunked */
    uint64_t received_bytes;         /* ... so far */
    enum coding coding;              /* of the body on the wire */
    bool refuses_coding;             /* it is one that is not taken */
    bool sized;                      /* what the endpoint gets has a length that is known before */
    uint64_t body_bytes;             /* ... which is this; else 0 */
    struct inflater *inflater;       /* from the first byte of a compressed body on */
    struct fault fault;              /* why it was refused or failed; GEMMD_OK otherwise */
    uint32_t retry_after_s; /* what whoever set `fault` knows of when to try again; 0: nothing */

    int status; /* of the answer */
    uint64_t response_bytes;
    uint64_t started_ns, received_ns, sending_ns;

    struct compute_call call;   /* POST /gemm and /attention */
    struct region_call *region; /* POST /v2/systemsharedmemory/... and the like; NULL otherwise */
    struct job *job;            /* ... that is to be a job; until its work is queued */
    struct job_waiter waiter;   /* GET /jobs/{id}/result */
    struct probe_wait ready;    /* GET /readyz */
    struct tensor_call *tensor; /* PUT, GET and HEAD /tensors/{name}; NULL otherwise */
    struct infer_call *infer;   /* POST /v2/models/{model}/infer; uses `call` too */
    struct v2_body *v2_body;    /* other POSTs of /v2 that have a body */

    struct request *next_spare; /* the thread's, once it has ended */
};

/* libmicrohttpd's callbacks; `cls` is the io_thread. */
void *request_first_line(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **context);
void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);

/* Frees the memory that requests left to the thread. */
void request_free_spares(struct io_thread *thread);

/* Its work is not waited for any longer; the I/O thread's waiters call this. */
void request_give_up(struct waiter *waiter, enum waiter_end why);

/* For endpoints, on the request's I/O thread. */
/* Refuses with request->fault: at once if the client has sent no body or waits for 100
 * Continue, after dropping a small body, else at once and closing. */
void request_refuse(struct request *request);
/* Accepts the body, which may take until the deadline (0: none). */
void request_receive(struct request *request, uint64_t deadline_ns);
/* Turns to WORKING: whoever the request is handed to next must call request_wake, once, unless it
 * is withdrawn. */
void request_hand_over(struct request *request);
/* The work is done: the endpoint's `answer` is called next. Any thread; the request may be gone
 * when this returns. */
void request_wake(struct request *request);
/* GEMMD_ERR_DRAINING or GEMMD_ERR_DEVICE_LOST in request->fault where no new work is taken. */
enum gemmd_error request_check_daemon(struct request *request);
/* Names the request; its headers must be in, as far as they ever will be. */
void request_choose_id(struct request *request);
/* The value of a header, or NULL. Borrowed. */
const char *request_header(const struct request *request, const char *name);
/* What its Prefer headers say. */
struct preferences request_preferences(const struct request *request);

#endif
