/*
 * endpoint.h - an endpoint: the functions that serve the requests to one path.
 *
 * An endpoint is a constant struct of functions, which run on the request's I/O thread. They are
 * called in this order: `begin` when the headers have arrived; if `begin` accepts the body, `chunk`
 * for each piece of the body and `submit` when the body is complete; if the request is handed over
 * to other threads (request_hand_over), `answer` when the work is done; `release` once at the end.
 *
 * `begin` answers the request (respond.h), refuses it (request_refuse), accepts its body
 * (request_receive) or hands it over. `submit` answers the request or hands it over.
 */
#ifndef SERVER_HTTP_ENDPOINT_H
#define SERVER_HTTP_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/http/token_line.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

struct request;

struct endpoint {
    /* "/jobs/{id}": request->name holds the text in the place of {id}. A path that ends in /,
     * except / itself, stands for all paths below it; request->rest holds the rest of the request's
     * path. */
    const char *path;
    const char *allow; /* the methods, for 405: "GET, HEAD" */
    enum metrics_op op;
    const void *context; /* the endpoint's own; borrowed */
    bool open;           /* requests need no credential */
    bool unlisted;       /* the 404 for an unknown path never suggests this path */
    enum token_scope
        scope; /* that a request's credential needs; SCOPE_ANY: any credential is enough */
    /* The size of the endpoint's own state in request->call, and how many of its bytes are zeroed
     * before `begin`. The endpoint writes the rest before it reads it. */
    uint32_t call_bytes, call_zeroed_bytes;

    void (*begin)(struct request *request);
    /* Takes the next bytes of the body. A compressed body has been decompressed. Returns false if
     * the body is refused: request->fault says why, and the rest of the body is dropped. */
    bool (*chunk)(struct request *request, const void *bytes, uint64_t length);
    void (*submit)(struct request *request);
    /* Whether the next of the calls `submit` and `answer` keeps its thread busy for milliseconds.
     * An I/O thread makes one such call in each iteration of its loop, and serves other requests
     * before the next one. NULL: no call does. */
    bool (*takes_long)(const struct request *request);
    /* Looks at the first bytes of the body of a request that was refused at its headers. May
     * replace request->fault by a fault that explains more. NULL: the body is not looked at. */
    void (*refused)(struct request *request, const char *bytes, uint64_t length);
    /* Takes back a request that was handed over. Returns false if its work has begun: request_wake
     * then has been or will be called. NULL: requests cannot be taken back. */
    bool (*withdraw)(struct request *request);
    /* Answers the request when its work is done. If `answer` returns without an answer,
     * the next iteration of the I/O thread's loop calls `answer` again. */
    void (*answer)(struct request *request);
    void (*release)(struct request *request); /* NULL: nothing to release */
    /* Seconds until a request that was refused with `code` may be accepted. NULL: one second. */
    uint32_t (*retry_after_s)(const struct request *request, enum gemmd_error code);
    /* Describes what the request computed, for the access log and the metrics. Returns the type of
     * the operands, or GEMMD_DTYPE_COUNT if the type is not known. `work_ended`: no other thread
     * has the request's work, so the times of its stages may be read. NULL: requests to this
     * endpoint compute nothing. */
    enum gemmd_dtype (*describe)(const struct request *request, bool work_ended,
                                 struct log_access *entry);
    /* Sets the times of the queue and of the copy, and entry->copies, for a request whose bytes a
     * device copied. Called if no other thread has the request's work. NULL: no device copies bytes
     * of such requests. */
    void (*copied)(const struct request *request, struct log_access *entry);
};

#endif
