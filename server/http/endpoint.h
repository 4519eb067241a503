/*
 * endpoint.h - what serves the requests to one path.
 *
 * An endpoint is a constant struct of functions, which run on the request's I/O thread. The order
 * is: `begin` once the headers are in; for an endpoint that accepts a body, `chunk` for each piece
 * of it and `submit` when it is complete; for one that hands its request over to other threads
 * (request_hand_over), `answer` when the work is done; `release` once at the end.
 *
 * `begin` answers (respond.h), refuses (request_refuse), accepts a body (request_receive) or hands
 * the request over. `submit` answers or hands over.
 */
#ifndef SERVER_HTTP_ENDPOINT_H
#define SERVER_HTTP_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/observe/log.h"
#include "server/observe/metrics.h"

struct request;

struct endpoint {
    /* "/jobs/{id}": request->name holds the text that stands for {id}. A path that ends in /, but
     * for / itself, stands for all paths below it; request->rest holds what follows it. */
    const char *path;
    const char *allow; /* the methods, for 405: "GET, HEAD" */
    enum metrics_op op;
    bool open; /* requests need no token */
    /* The size of the endpoint's own state in request->call, and how many of its bytes are zeroed
     * before `begin`. The endpoint writes the rest before it reads it. */
    uint32_t call_bytes, call_zeroed_bytes;

    void (*begin)(struct request *request);
    /* Takes bytes of the body, decompressed if the body was compressed. False: request->fault says
     * why not, and the rest of the body is dropped. */
    bool (*chunk)(struct request *request, const void *bytes, uint64_t length);
    void (*submit)(struct request *request);
    /* Takes back a request that was handed over. False if its work has begun: request_wake was or
     * will be called. NULL: requests cannot be taken back. */
    bool (*withdraw)(struct request *request);
    /* Called again in each turn of the I/O thread's loop until it has answered. */
    void (*answer)(struct request *request);
    void (*release)(struct request *request); /* NULL: nothing to release */
    /* Seconds until a request that was refused with `code` may be accepted. NULL: one second. */
    uint32_t (*retry_after_s)(const struct request *request, enum gemmd_error code);
    /* For the access log and the metrics: fills in what the request computed. Returns the type of
     * the operands, GEMMD_DTYPE_COUNT if it is not known. `work_ended`: nobody else works on the
     * request any more, so that the times of its stages can be read. NULL: nothing is computed. */
    enum gemmd_dtype (*describe)(const struct request *request, bool work_ended,
                                 struct log_access *entry);
};

#endif
