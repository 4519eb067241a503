/*
 * client.h - what a client and a request are inside.
 *
 * A request is QUEUED until one of the client's max_in_flight places is free, then RUNNING (it has
 * a transfer) or RESTING (it keeps its place and waits to be sent again), and DONE at the end. All
 * of it belongs to the thread that is in a call with the client.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "client/answer.h"
#include "client/body.h"
#include "client/endpoint.h"
#include "client/loop.h"
#include "client/operation.h"
#include "client/share.h"

struct transfer;

enum { REQUEST_TARGET_MAX = 1024 };

enum request_state { REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_RESTING, REQUEST_DONE };

/* A piece of memory that bytes of an answer go to. */
struct place {
    char *data; /* the caller's, or ours, of `room` bytes; NULL: none yet */
    uint64_t room;
    bool owned; /* `data` is released with the request */
};

/* Where the payload of an answer that is no failure goes. */
struct sink {
    struct place data;
    struct place lse; /* of SINK_TENSORS: what comes beside the result, if it does */
    uint32_t lse_rank;
    uint64_t lse_dims[ANSWER_MAX_RANK];
    struct {
        char *data;
        uint64_t bytes;
    } parts[2];      /* of SINK_TENSORS: where its tensors go, in the order of their bytes */
    uint64_t wanted; /* of SINK_DATA: how many bytes are to come */
    uint64_t bytes;  /* received */
    enum {
        SINK_NONE,    /* a document, if anything: the transfer keeps its front */
        SINK_DATA,    /* exactly `wanted` bytes */
        SINK_TENSORS, /* a safetensors file, taken apart as it comes (unpack.h); `wanted` is the
                         bytes of its tensors, 0 until its header is there */
        SINK_TEXT     /* of unknown length: grows, and is terminated */
    } kind;
};

struct gemmd_request {
    TAILQ_ENTRY(gemmd_request) of_client; /* in client->requests, until it is freed */
    TAILQ_ENTRY(gemmd_request) of_state;  /* in client->queued, ->running, ->done or ->calls */
    struct gemmd_client *client;
    enum request_state state;
    bool reported; /* the caller was told that it is done; it is in no list of a state then */
    void *user;
    gemmd_done_function on_done; /* NULL: the caller asks */

    /* What is asked. */
    const struct operation *operation;
    char target[REQUEST_TARGET_MAX]; /* path and query; the time may be appended */
    char id[64];                     /* X-Request-Id, or "" */
    char etag[ANSWER_ETAG_ROOM];     /* If-None-Match, or "" */
    struct body body;
    struct share share; /* how it uses shared memory */
    struct sink sink;
    uint64_t deadline_us;
    uint32_t repeats_left;
    /* What accept compares with. */
    struct {
        uint32_t rank;
        uint64_t dims[ANSWER_MAX_RANK];
        enum gemmd_dtype dtype;
        uint64_t bytes;
        uint64_t lse_bytes; /* 0: none is asked for */
        bool verify;
    } expected;

    /* Its way. */
    struct transfer *transfer; /* while RUNNING */
    uint32_t attempts;
    bool ask_first; /* force Expect: a connection broke while the body was sent */
    bool stale;     /* a kept connection turned out to be closed before anything was answered */
    bool unshared;  /* shared memory was refused: to be sent without it, at once */
    bool fresh;     /* use a new connection */
    bool untimed; /* the daemon takes no deadline as long as the time that is left: its own holds */
    uint32_t told_ms; /* the time that is left, as the daemon was told; 0: it was not */
    uint64_t submitted_us, done_us;
    uint64_t attempted_us; /* when the attempt began */
    uint64_t resume_us;    /* while RESTING */
    uint64_t checked_us;   /* when bytes moved last, or were looked at */
    uint64_t moved;        /* how many had moved then */
    struct answer answer;  /* once DONE with GEMMD_OK */
    struct gemmd_job job;  /* the same, of a job's status */
    struct gemmd_error_info error;
};

TAILQ_HEAD(request_list, gemmd_request);

struct gemmd_client {
    struct endpoint endpoint;
    struct gemmd_options options; /* its strings are not kept */
    char *ca_file;
    struct curl_slist *headers[HEADERS_COUNT];
    struct loop loop;
    struct share_client share;
    uint64_t random;
    struct request_list requests;
    struct request_list queued, running, done;
    struct request_list calls; /* done, with a callback that is due */
    uint32_t running_count, queued_count;
    uint64_t done_count; /* requests that were ever done */
    uint32_t refused_ms; /* so long a deadline, or nearly, was too long for the daemon; 0: none */
    uint64_t check_us;   /* when a deadline, a rest or a stall is due at the earliest */
    struct transfer *idle, *idle_bulk; /* transfers for small and large bodies, to be used again */
    uint32_t idle_bulk_count;
};

/* A new request, not yet submitted, with the client's deadline or that of `call` if it is shorter;
 * NULL with `error` if `call` is not right or there is no memory. Released with
 * gemmd_request_free. `call` is a structure of the library's own size. */
struct gemmd_request *request_new(struct gemmd_client *client, const struct operation *operation,
                                  const struct gemmd_call *call, struct gemmd_error_info *error);
/* Copies a caller's structure, which may be NULL, over the defaults. False with `error` if it is
 * none of this library's. */
bool request_call(struct gemmd_call *call, const struct gemmd_call *given,
                  struct gemmd_error_info *error);
/* Waits for a request, if it is not NULL, says how it went, and releases it. `error` is what the
 * making of it filled in. */
enum gemmd_error request_finish(struct gemmd_request *request, struct gemmd_result *result,
                                struct gemmd_error_info *error);

#endif
