/*
 * request.h - one HTTP request, from its first line to the last byte of its answer.
 *
 * Only the request's I/O thread uses a request, with two exceptions: any thread may call
 * request_wake, and while a request is in state REQUEST_WORKING its endpoint decides which threads
 * use the endpoint's state (request->call).
 *
 * A request in state REQUEST_WORKING ends before its work does if its deadline passes (504, at
 * once), its client disconnects or the daemon gives up. Work that has not begun is taken back then
 * and never runs. Work that has begun keeps the request's memory until the work is done; its result
 * is dropped.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "proto/gemm_request.h"
#include "proto/parameter.h"
#include "server/base/inbox.h"
#include "server/base/list.h"
#include "server/base/trace_context.h"
#include "server/http/endpoint.h"
#include "server/http/negotiation.h"
#include "server/http/waiters.h"

struct connection;
struct config;
struct digests;
struct http_server;
struct inflater;
struct io_thread;
struct options_copy;

/* The states of a request, in order. */
enum request_state {
    /* The request line has arrived. */
    REQUEST_HEADERS,
    /* The headers have arrived and no body follows. libmicrohttpd closes the connection of a
     * request that is answered at its headers, so the answer waits for libmicrohttpd's next call.
     */
    REQUEST_BODILESS,
    /* The endpoint has accepted the body, which is being received. */
    REQUEST_RECEIVING,
    /* The request is refused, or its body is malformed. The rest of the body is read and dropped
     * before the answer, so that a client with a small body keeps its connection. */
    REQUEST_DISCARDING,
    /* Other threads have the request's work. libmicrohttpd asks in every iteration of the I/O
     * thread's loop whether there is an answer. A thread that is about to sleep suspends the
     * connections of unfinished requests first. A busy thread does not, which saves system calls.
     */
    REQUEST_WORKING,
    /* libmicrohttpd has the answer. */
    REQUEST_ANSWERED,
    /* libmicrohttpd could not be given an answer. The connection is closed without one. */
    REQUEST_FAILED
};

/* The progress of a request's work, shared by its I/O thread and the thread that ends the work. */
enum request_progress {
    PROGRESS_RUNNING,
    PROGRESS_AWAITED, /* the I/O thread has stopped asking: the end must be posted to its inbox */
    PROGRESS_DONE
};

/* An answer up to this size fits in the buffer of a socket, so that it is written with one call. */
enum { SMALL_ANSWER_BYTES = 64 * 1024 };

/* Bytes of a path that the log keeps; and the longest text in the place of a path's {...}, which is
 * the name of a model: "linear." and the name of a tensor (MODEL_NAME_MAX in api/v2/infer_model.h).
 */
enum { REQUEST_PATH_MAX = 256, REQUEST_NAME_MAX = 135, REQUEST_LIST_MAX = 4096 };
/* Characters of an X-Request-Id. */
enum { REQUEST_ID_MAX = 128 };

struct request {
    /* --- Cleared for each request. --- */
    struct http_server *server;
    const struct config *config;  /* in force when the request began; a reload does not change it */
    struct options_copy *options; /* the copy that has `config` */
    struct io_thread *thread;
    struct connection *connection;
    struct MHD_Connection *mhd;
    const struct endpoint *endpoint; /* NULL until the request is routed */
    void *call;                      /* the endpoint's state, of endpoint->call_bytes */
    const char *tenant;              /* the credential's tenant; "" without one. Borrowed */
    const char *challenge;           /* for WWW-Authenticate; NULL: none. Borrowed */
    uint32_t scopes;                 /* of the credential (enum token_scope); 0 without tokens */
    uint32_t max_priority;           /* of the credential; GEMM_PRIORITY_MAX without tokens */
    uint32_t tenant_number;          /* the same tenant; 0 without tokens */
    const char *rest; /* the part of the path after the endpoint's path, decoded; borrowed */

    enum request_state state;
    _Atomic enum request_progress progress;
    struct inbox_message done;   /* posted to the I/O thread if progress was PROGRESS_AWAITED */
    struct waiter among_waiters; /* in the thread's waiters, while REQUEST_WORKING */
    bool handed_over;            /* other threads have the work, as far as the I/O thread knows */
    bool awaited;                /* `done` was or will be posted */
    bool suspended;              /* libmicrohttpd has suspended the connection */
    bool receives;               /* one of the accepted bodies that the thread receives */
    bool drops_body;             /* one of the bodies that the thread reads and drops now */
    struct list_item in_dropped; /* while the dropped body is not being read yet */
    struct list_item in_heads;   /* while a lenient parser reads the headers */
    struct list_item in_long;    /* while a call that takes long waits for its turn */
    bool given_up;               /* to be answered with `fault` before the work is done */
    bool abandoned;              /* the connection ended before the work: only `release` is left */

    /* The target of the request line as it was received, up to a zero byte. Valid until the
     * headers have been checked. Borrowed. */
    const char *target;
    size_t target_bytes;
    bool target_is_sound;             /* the target has no space and no control character */
    bool escapes_zero, escapes_slash; /* the path has %00 or %2F in it */
    bool may_have_secret;             /* query_has_secret may be true for a parameter */
    bool chunked;                     /* the length on the wire is not known */
    /* libmicrohttpd accepts chunks that a proxy may frame differently, so the connection is closed
     * after the answer. */
    bool unverified_framing;
    bool expects_continue;     /* the client waits for 100 Continue */
    bool refuses_coding;       /* the body's Content-Encoding is not accepted */
    bool sized;                /* the length of the decompressed body is known at the headers */
    enum coding coding;        /* of the body on the wire */
    uint64_t content_length;   /* on the wire; 0 if chunked */
    uint64_t received_bytes;   /* on the wire, so far */
    uint64_t body_bytes;       /* of the decompressed body, if `sized`; else 0 */
    struct digests *digests;   /* NULL: the request has no digest fields; owned */
    struct inflater *inflater; /* from the first byte of a compressed body on */

    /* The client behind trusted proxies (forwarded.h). No family: the peer is the client. */
    struct sockaddr_in6 client;
    bool client_counted; /* as one of the client's connections */

    uint32_t retry_after_s; /* for Retry-After, set with `fault`; 0: the endpoint decides */
    int status;             /* of the answer */
    uint64_t response_bytes;
    bool written_in_pieces; /* libmicrohttpd writes the answer's body apart from its headers */
    uint64_t started_ns, received_ns, sending_ns;

    /* --- Not cleared. Only the first element of each is set, so that it is empty. --- */
    struct fault fault;              /* why the request was refused or failed; GEMMD_OK: neither */
    char id[REQUEST_ID_MAX + 1];     /* X-Request-Id */
    struct trace_context trace;      /* request_parts.h */
    char method[16];                 /* cut to fit */
    char name[REQUEST_NAME_MAX + 1]; /* what stands for the {...} of the endpoint's path */
    char path[REQUEST_PATH_MAX];     /* as sent, cut to fit, without secrets; for the log */
};

/* Callbacks of libmicrohttpd; `cls` is the io_thread. request_first_line: the first line of a
 * request has arrived. request_handle: more of the request has arrived, or libmicrohttpd asks for
 * the answer. request_completed: the request has ended. */
void *request_first_line(void *cls, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result request_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **context);
void request_completed(void *cls, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);

/* Ends the wait for a request's work; a callback of the I/O thread's waiters. */
void request_give_up(struct waiter *waiter, enum waiter_end why);

/* The functions from here on are for endpoints. They run on the request's I/O thread, unless their
 * comment says otherwise. */

/* Refuses the request with request->fault. A request without a body, or whose client waits for 100
 * Continue, is answered at once. A small body is received and dropped before the answer. A request
 * with a large body is answered at once, and its connection is closed. */
void request_refuse(struct request *request);
/* Accepts the body, which may be received until the deadline (monotonic clock; 0: none). */
void request_receive(struct request *request, uint64_t deadline_ns);
/* Changes the deadline of the request (0: none). */
void request_set_deadline(struct request *request, uint64_t deadline_ns);
/* Hands the request's work over to other threads: the request enters REQUEST_WORKING. The thread
 * that ends the work must call request_wake once, unless the endpoint withdraws the work. */
void request_hand_over(struct request *request);
/* Hands over a request whose work has ended, and whose answer other threads complete. */
void request_hand_over_again(struct request *request);
/* Hands over work that completes an answer which is sent meanwhile, for a request whose first work
 * has ended. To be called in the call of `answer` that gives the answer (respond_pieces):
 * libmicrohttpd asks for the answer's bytes later. The rule for request_wake is that of
 * request_hand_over. */
void request_hand_over_rest(struct request *request);
/* How far that work is. */
enum request_rest {
    REQUEST_REST_DONE,
    /* The work runs. libmicrohttpd has suspended the connection, and asks for the next bytes of the
     * answer when the work is done. */
    REQUEST_REST_AWAITED,
    /* The deadline passed, the client disconnected or the daemon stops: the answer must end. */
    REQUEST_REST_GIVEN_UP
};
/* To be called by the reader of an answer that has no byte to give before the rest is done. */
enum request_rest request_await_rest(struct request *request);
/* Tells the I/O thread that the work is done; the I/O thread then calls the endpoint's `answer`.
 * Any thread. The request may already be freed when request_wake returns. */
void request_wake(struct request *request);

/* The priority of a request that names none: the default, or the highest that the credential allows
 * if that is lower. */
static inline uint32_t request_default_priority(const struct request *request)
{
    return request->max_priority < GEMM_PRIORITY_DEFAULT ? request->max_priority
                                                         : GEMM_PRIORITY_DEFAULT;
}
/* Suggests a path for a decoded path that no endpoint serves: the same without slashes at its end,
 * or the nearest one. Writes "; did you mean PATH?", or nothing, to `hint`, and returns `hint`.
 * Clears request->name. */
const char *route_hint(struct request *request, const char *path, char hint[PARAMETER_HINT_BYTES]);
/* Whether the client announced a body that the endpoint has not accepted. */
bool request_has_body(const struct request *request);
/* Whether the connection is open. False after the daemon has ended the connection because its
 * client was too slow or has disconnected. */
bool request_is_connected(const struct request *request);
/* The value of a header field, or NULL. Borrowed. */
const char *request_header(const struct request *request, const char *name);
/* The value of a header field that is a list, or NULL. Several fields of that name are combined in
 * `list`, if it has room for all of them; else the first counts. Borrowed. */
const char *request_header_list(const struct request *request, const char *name,
                                char list[REQUEST_LIST_MAX]);
/* The preferences in the Prefer headers of a request (RFC 7240). */
struct preferences {
    bool respond_async;
    bool has_wait;
    uint64_t wait_s; /* the N of wait=N, if has_wait */
};
struct preferences request_preferences(const struct request *request);
/* Takes one parameter of the query. Returns false to refuse the parameter: request->fault then says
 * why, and request_parameters stops. */
typedef bool request_parameter(void *context, const char *name, const char *value);
/* Calls `take` with each parameter of the query, in order and decoded. A parameter without = has
 * the value "". Returns request->fault.code: GEMMD_ERR_MALFORMED for a parameter that contains a
 * zero byte, or the code that `take` has set. */
enum gemmd_error request_parameters(struct request *request, request_parameter *take,
                                    void *context);

#endif
