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

struct transfer;

enum { REQUEST_TARGET_MAX = 1024 };

enum request_state { REQUEST_QUEUED, REQUEST_RUNNING, REQUEST_RESTING, REQUEST_DONE };
enum request_method { REQUEST_GET, REQUEST_POST };

/* Where the payload of an answer of status 200 goes. */
struct sink {
    char *data; /* the caller's, or ours */
    uint64_t room;
    uint64_t bytes; /* received */
    bool owned;     /* `data` is released with the request */
    bool text;      /* of unknown length: grows, and is terminated */
};

struct gemmd_request {
    TAILQ_ENTRY(gemmd_request) of_client; /* in client->requests, until it is freed */
    TAILQ_ENTRY(gemmd_request) of_state;  /* in client->queued, ->running or ->done */
    struct gemmd_client *client;
    enum request_state state;
    bool reported; /* the caller was told that it is done; it is in no list of a state then */
    void *user;

    /* What is asked. */
    enum request_method method;
    char target[REQUEST_TARGET_MAX]; /* path and query; timeout_ms is appended to a POST's */
    char id[64];                     /* X-Request-Id, or "" */
    struct body body;
    struct sink sink;
    uint64_t deadline_us;
    uint32_t repeats_left;
    /* Looks at the header of an answer of status 200 before its payload is taken, and makes
     * `sink` ready for it. Returns the code and fills in request->error if the answer is not what
     * was asked for. NULL: anything will do. */
    enum gemmd_error (*accept)(struct gemmd_request *request, const struct answer *answer);
    /* What accept compares with. */
    struct {
        uint32_t rank;
        uint64_t dims[3];
        enum gemmd_dtype dtype;
        uint64_t bytes;
        bool verify;
    } expected;

    /* Its way. */
    struct transfer *transfer; /* while RUNNING */
    uint32_t attempts;
    bool ask_first; /* force Expect: a connection broke while the body was sent */
    bool stale;     /* a kept connection turned out to be closed before anything was answered */
    bool fresh;     /* use a new connection */
    uint64_t submitted_us, done_us;
    uint64_t resume_us;   /* while RESTING */
    uint64_t checked_us;  /* when bytes moved last, or were looked at */
    uint64_t moved;       /* how many had moved then */
    struct answer answer; /* once DONE with GEMMD_OK */
    struct gemmd_error_info error;
};

TAILQ_HEAD(request_list, gemmd_request);

struct gemmd_client {
    struct endpoint endpoint;
    struct gemmd_options options; /* its strings are not kept */
    char *ca_file;
    /* Of a GET, of a body that is sent at once, of one that is sent after 100 Continue. */
    struct curl_slist *headers_get, *headers_send, *headers_ask;
    struct loop loop;
    uint64_t random;
    struct request_list requests;
    struct request_list queued, running, done;
    uint32_t running_count, queued_count;
    uint64_t done_count; /* requests that were ever done */
    uint64_t check_us;   /* when a deadline, a rest or a stall is due at the earliest */
    struct transfer *idle, *idle_bulk; /* transfers for small and large bodies, to be used again */
    uint32_t idle_bulk_count;
};

/* A new request, not yet submitted, with the client's deadline or `timeout_ms` if that is
 * shorter; NULL if there is no memory. Released with gemmd_request_free. */
struct gemmd_request *request_new(struct gemmd_client *client, enum request_method method,
                                  uint32_t timeout_ms, struct gemmd_error_info *error);

#endif
