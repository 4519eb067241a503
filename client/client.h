/*
 * client.h - the structures of a client and of a request.
 *
 * A request is QUEUED while max_in_flight other requests of the client are in flight. A request in
 * flight is RUNNING while an attempt, with a transfer, is under way, and RESTING while the request
 * waits to be sent again. In the end the request is DONE. The structures belong to the thread that
 * is calling a function with the client.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "client/address.h"
#include "client/answer.h"
#include "client/body.h"
#include "client/loop.h"
#include "client/operation.h"
#include "client/shared_memory.h"

struct transfer;

enum { REQUEST_TARGET_MAX = 1024 };

enum request_state { REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_RESTING, REQUEST_DONE };

/* A buffer for bytes of an answer. */
struct answer_buffer {
    char *data;    /* the caller's buffer, or one of the library; NULL: no buffer yet */
    uint64_t room; /* size of `data` */
    bool owned;    /* `data` is the library's, and is released with the request */
};

/* Where the payload of an answer that is no failure goes. */
struct sink {
    struct answer_buffer data;
    struct answer_buffer lse; /* for SINK_TENSORS: where lse goes, if the answer has lse */
    uint32_t lse_rank;
    uint64_t lse_dims[ANSWER_MAX_RANK];
    struct {
        char *data;
        uint64_t bytes;
    } parts[2];      /* for SINK_TENSORS: where each tensor of the file goes, in the file's order */
    uint64_t wanted; /* for SINK_DATA: length of the payload */
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
    bool reported; /* the caller knows that the request is done; `of_state` is then in no list */
    void *user;
    gemmd_done_function on_done; /* the callback; NULL: the caller waits for the request */

    /* The request to the daemon. */
    const struct operation *operation;
    char target[REQUEST_TARGET_MAX]; /* path and query; an attempt appends the remaining time */
    char id[64];                     /* X-Request-Id, or "" */
    char etag[ANSWER_ETAG_ROOM];     /* If-None-Match, or "" */
    struct body body;
    struct shared_memory shared_memory; /* the request's use of shared memory */
    struct sink sink;
    uint64_t deadline_us;
    uint32_t repeats_left;
    /* The result that the operation's `accept` compares an answer with. */
    struct {
        uint32_t rank;
        uint64_t dims[ANSWER_MAX_RANK];
        enum gemmd_dtype dtype;
        uint64_t bytes;
        uint64_t lse_bytes; /* 0: the request does not ask for lse */
        bool verify;
    } expected;

    /* The state of the attempts. */
    struct transfer *transfer; /* the current attempt's, while RUNNING */
    uint32_t attempts;
    bool ask_first; /* send "Expect: 100-continue": a connection broke while the body was sent */
    bool stale;     /* the daemon had closed the kept connection that the attempt used */
    bool unshared;  /* the daemon refused shared memory: send the request again at once through the
                       socket */
    bool fresh;     /* use a new connection */
    bool untimed;   /* send no deadline, since the daemon takes none as long as the time left */
    uint32_t told_ms; /* the deadline that the attempt sent to the daemon; 0: none */
    uint64_t submitted_us, done_us;
    uint64_t attempted_us; /* when the current attempt began */
    uint64_t resume_us;    /* when the next attempt begins, while RESTING */
    uint64_t checked_us;   /* when `moved` last changed, or no byte was expected to move */
    uint64_t moved;        /* bytes sent and received in the attempt, as of checked_us */
    struct answer answer;  /* valid once DONE with GEMMD_OK */
    struct gemmd_job job; /* valid once DONE with GEMMD_OK, if the request was for a job's status */
    struct gemmd_error_info error;
};

TAILQ_HEAD(request_list, gemmd_request);

struct gemmd_client {
    struct address address;
    struct gemmd_options options; /* without the strings, which are NULL */
    char *ca_file;
    struct curl_slist *headers[HEADERS_COUNT];
    struct loop loop;
    struct shared_memory_client shared_memory;
    uint64_t random;
    struct request_list requests;
    struct request_list queued, running, done;
    struct request_list calls; /* requests that are done and whose callback has yet to be called */
    uint32_t running_count, queued_count;
    uint64_t done_count; /* requests that have become done since the client was made */
    uint32_t
        refused_ms; /* a deadline that the daemon refused as too long; 0: no deadline was refused */
    uint64_t check_us; /* the earliest time at which a deadline, a rest or a stall may be due */
    struct transfer *idle, *idle_bulk; /* unused transfers for small and for large bodies */
    uint32_t idle_bulk_count;
};

/* Returns a new request, not yet submitted, which the caller releases with gemmd_request_free. The
 * request's deadline is the client's, or that of `call` if that is earlier. Returns NULL with
 * `error` filled in if `call` is invalid or there is no memory. `call` has the library's own size.
 */
struct gemmd_request *request_new(struct gemmd_client *client, const struct operation *operation,
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
