/*
 * client.h - the structures of a client, of a request, and of an exchange, which is one kind of
 * request.
 *
 * A request is QUEUED while max_in_flight other requests of the client are in flight. A request in
 * flight is RUNNING while an attempt to send the request is under way, and RESTING while the
 * request waits for the next attempt. A RUNNING request has a transfer (transfer.h). A request with
 * a result or an error is DONE.
 *
 * The structures have no lock. Only one thread at a time may call a function with the client or
 * with a request of the client. Times named ..._us are in
 * microseconds of the monotonic clock.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "client/address.h"
#include "client/answer.h"
#include "client/body.h"
#include "client/loop.h"
#include "client/shared_memory.h"

struct gemmd_request;
struct transfer;

enum { REQUEST_TARGET_MAX = 1024 };

/* The header that makes a request part of its caller's trace (W3C Trace Context,
 * https://www.w3.org/TR/trace-context/, version 00). */
enum { TRACEPARENT_LENGTH = 55, TRACEPARENT_ROOM = TRACEPARENT_LENGTH + 1 };

#define TRACEPARENT_FORM                                                                           \
    "a traceparent is 00-TRACE-SPAN-FLAGS, with 32, 16 and 2 hexadecimal digits in lower case; "   \
    "neither TRACE nor SPAN is all zeros"

/* Whether a text has the form above. */
bool traceparent_is_valid(const char *text);

/* ---- exchanges ---- */

/* The sets of request headers. A set of ..._ASK... directly follows the same set of ..._SEND...,
 * from which it differs by "Expect: 100-continue". */
enum headers {
    HEADERS_PLAIN,          /* the authorization token, which every set has, and no other header */
    HEADERS_ACCEPT,         /* no body; Accept asks for an answer of raw bytes */
    HEADERS_ACCEPT_TENSORS, /* no body; Accept asks for a safetensors file */
    HEADERS_SEND,           /* a body of raw bytes; Accept asks for an answer of raw bytes */
    HEADERS_ASK,            /* as HEADERS_SEND; the body is sent after 100 Continue */
    HEADERS_SEND_FOR_TENSORS, /* a body of raw bytes; Accept asks for a safetensors file */
    HEADERS_ASK_FOR_TENSORS,  /* as HEADERS_SEND_FOR_TENSORS; the body is sent after 100 Continue */
    HEADERS_PUT,              /* a body of raw bytes, sent after 100 Continue; no Accept */
    HEADERS_PUT_SAFETENSORS,  /* as HEADERS_PUT, with a safetensors body */
    HEADERS_COUNT
};

enum { EXCHANGE_STATUSES = 4 };

struct exchange {
    const char *method;
    enum headers headers;
    bool sends;                      /* the request has a body, which may be empty */
    bool prefers_async;              /* send "Prefer: respond-async", to hand in a job */
    int statuses[EXCHANGE_STATUSES]; /* statuses of answers that are not failures; 0 ends the list
                                      */
    /* The query parameter that gives the daemon the remaining time, and the largest value that the
     * client sends. NULL: the exchange has no query parameter for the remaining time. */
    const char *time_parameter;
    uint32_t time_max_ms;
    const char *missing; /* message for a 404 to a HEAD request, which has no body; NULL: none */
    bool waits; /* 409 means that the job is not done: repeat the request until the deadline */
    /* Checks the header of an answer that is not a failure, before the payload arrives, and
     * prepares request->sink. Returns an error code and fills in request->error if the answer does
     * not match the request. NULL: every answer matches. */
    enum gemmd_error (*accept)(struct gemmd_request *request, const struct answer *answer);
    /* Reads the document of a complete answer without a payload, and fills in `answer` from it.
     * Returns an error code and fills in request->error if the document is malformed. NULL: the
     * document is not read. */
    enum gemmd_error (*conclude)(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes);
};

/* ---- requests ---- */

enum request_state { REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_RESTING, REQUEST_DONE };

/* A buffer for bytes of an answer. */
struct answer_buffer {
    char *data;    /* the caller's buffer, or the library's; NULL: no buffer yet */
    uint64_t room; /* size of `data` in bytes */
    bool owned;    /* `data` is the library's buffer, which is freed with the request */
};

/* The destination of the payload of an answer that is not a failure. */
struct sink {
    struct answer_buffer data;
    struct answer_buffer lse; /* for SINK_TENSORS: the destination of lse, if the answer has lse */
    uint32_t lse_rank;
    uint64_t lse_dims[ANSWER_MAX_RANK];
    struct answer_buffer scale; /* for SINK_TENSORS: the destination of a tensor's scales */
    uint32_t scale_rank;
    uint64_t scale_dims[ANSWER_MAX_RANK];
    struct {
        char *data;
        uint64_t bytes;
    } parts[2]; /* for SINK_TENSORS: the destination of each tensor, in the order of the file */
    uint64_t wanted; /* for SINK_DATA: length of the payload in bytes */
    uint64_t bytes;  /* bytes of the payload received so far */
    enum {
        SINK_NONE,    /* the payload, if any, is a document; the transfer keeps its first bytes */
        SINK_DATA,    /* the payload has exactly `wanted` bytes */
        SINK_TENSORS, /* the payload is a safetensors file, which is unpacked as it arrives
                         (unpack.h); `wanted` is the total length of the file's tensors, 0 until the
                         file's header has arrived */
        SINK_TEXT     /* the payload is a text of unknown length; the buffer grows, and the text is
                         terminated with a NUL */
    } kind;
};

struct gemmd_request {
    TAILQ_ENTRY(gemmd_request) of_client; /* in client->requests, until the request is freed */
    TAILQ_ENTRY(gemmd_request) of_state;  /* in client->queued, ->running, ->done or ->calls */
    struct gemmd_client *client;
    enum request_state state;
    bool reported; /* the caller has learnt that the request is DONE, which then is in no list of a
                      state */
    void *user;
    gemmd_done_function on_done; /* called when the request is DONE; NULL: the caller waits */

    /* The request to the daemon. */
    const struct exchange *exchange;
    char target[REQUEST_TARGET_MAX];    /* path and query; an attempt appends the remaining time */
    char id[64];                        /* X-Request-Id, or "" */
    char traceparent[TRACEPARENT_ROOM]; /* or "" */
    char etag[ANSWER_ETAG_ROOM];        /* If-None-Match, or "" */
    struct body body;
    char *body_front;                   /* a part of the body that the request owns; NULL: none */
    struct shared_memory shared_memory; /* the request's use of shared memory */
    struct sink sink;
    uint64_t deadline_us;
    uint32_t repeats_left; /* retries left for retriable failures */
    /* The result that the exchange's `accept` compares an answer with. */
    struct {
        uint32_t rank;
        uint64_t dims[ANSWER_MAX_RANK];
        enum gemmd_dtype dtype;
        const char *type; /* name of the type if dtype is GEMMD_DTYPE_COUNT; static */
        uint64_t bytes;
        uint64_t lse_bytes; /* 0: the request does not ask for lse */
        bool verify;
        bool scales; /* the request asks for the scales that a tensor may have */
    } expected;

    /* The state of the attempts. */
    struct transfer *transfer; /* of the current attempt, while RUNNING */
    uint32_t attempts;         /* number of attempts so far */
    bool ask_first; /* send "Expect: 100-continue", because a connection broke while the body was
                       sent */
    bool stale;     /* the daemon had closed the kept connection that the attempt used */
    bool unshared;  /* the daemon refused shared memory, so that the next attempt sends the operands
                       through the socket, at once */
    bool fresh;     /* the next attempt uses a new connection */
    bool untimed;   /* send no deadline, because the daemon refused one as too long */
    uint32_t told_ms; /* time left that the attempt sent to the daemon as the deadline; 0: none */
    uint64_t submitted_us, done_us;
    uint64_t attempted_us; /* start of the current attempt */
    uint64_t resume_us;    /* start of the next attempt, while RESTING */
    uint64_t checked_us;  /* time at which `moved` last changed, or at which no byte was expected to
                             move */
    uint64_t moved;       /* bytes sent and received in the attempt, as of checked_us */
    struct answer answer; /* valid once DONE with GEMMD_OK */
    struct gemmd_job job; /* valid once DONE with GEMMD_OK, if the request was for a job's status */
    struct gemmd_sequence *sequence; /* that the answer describes; owned. NULL: it describes none */
    struct gemmd_error_info error;
};

TAILQ_HEAD(request_list, gemmd_request);

/* ---- clients ---- */

struct gemmd_client {
    uint32_t forks; /* process_forks() of the process whose connections the client has */
    struct address address;
    struct gemmd_options options; /* without the strings, which are NULL */
    char *ca_file, *cert_file, *key_file;
    char traceparent[TRACEPARENT_ROOM]; /* of requests that name none, or "" */
    struct curl_slist *headers[HEADERS_COUNT];
    struct loop loop;
    struct shared_memory_client shared_memory;
    uint64_t random;
    struct request_list requests; /* all requests that have not been freed */
    struct request_list queued, running, done;
    struct request_list calls; /* requests that are DONE, and whose callback has yet to be called */
    uint32_t running_count, queued_count;
    uint64_t done_count; /* number of requests that have become DONE since the client was made */
    uint32_t refused_ms; /* a deadline this long or longer is not sent to the daemon, which has
                            refused one as too long; 0: every deadline is sent */
    uint64_t check_us;   /* earliest time at which a deadline, a rest or a stall is due */
    struct idle_transfers {
        struct transfer *first;
        uint32_t count;
    } idle[2]; /* unused transfers, for small bodies and for large ones */
};

/* Returns a new request, not yet submitted, which the caller releases with gemmd_request_free. The
 * request's deadline is the client's, or that of `call` if that is earlier. Returns NULL with
 * `error` filled in if `call` is invalid or there is no memory. `call` has the library's own size.
 */
struct gemmd_request *request_new(struct gemmd_client *client, const struct exchange *exchange,
                                  const struct gemmd_call *call, struct gemmd_error_info *error);
/* Copies `given`, which may be NULL, over the defaults in `call`. False with `error` filled in if
 * the size of `given` is not one that the library knows. */
bool request_call(struct gemmd_call *call, const struct gemmd_call *given,
                  struct gemmd_error_info *error);
/* Waits for a request, takes its result, and releases the request. If `request` is NULL, returns
 * the code of `error`, which the function that failed to make the request has filled in. */
enum gemmd_error request_finish(struct gemmd_request *request, struct gemmd_result *result,
                                struct gemmd_error_info *error);

#endif
