/*
 * operation.h - what sets one kind of request apart from another. All are constants, each beside
 * the functions that make such requests (compute.c, gemm.c, tensor.c,
 * job.c, daemon.c).
 */
#ifndef CLIENT_OPERATION_H
#define CLIENT_OPERATION_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/answer.h"

/* The headers that a client sends with it. */
enum headers {
    HEADERS_PLAIN,            /* who asks */
    HEADERS_ACCEPT,           /* and that raw bytes are wanted */
    HEADERS_SEND,             /* and that raw bytes follow at once */
    HEADERS_ASK,              /* or after 100 Continue; follows SEND, as below */
    HEADERS_SEND_FOR_TENSORS, /* raw bytes follow at once, a safetensors file is wanted */
    HEADERS_ASK_FOR_TENSORS,  /* or after 100 Continue */
    HEADERS_PUT,              /* raw bytes follow after 100 Continue, any answer will do */
    HEADERS_COUNT
};

enum { OPERATION_STATUSES = 4 };

struct operation {
    const char *method;
    enum headers headers;
    bool sends;                       /* it has a body, perhaps an empty one */
    bool prefers_async;               /* it asks for a job */
    int statuses[OPERATION_STATUSES]; /* of the answers that are no failure; 0 ends them */
    /* The query parameter that says how long the caller still waits, at most so much; NULL: none */
    const char *time_parameter;
    uint32_t time_max_ms;
    const char *missing; /* what a 404 means, for answers to HEAD, which cannot say it; or NULL */
    bool waits;          /* 409 means "not yet": asked again until the time is over */
    /* Looks at the header of an answer that is no failure, before its payload is taken, and makes
     * request->sink ready for it. Returns the code and fills in request->error if the answer is not
     * what was asked for. NULL: anything will do. */
    enum gemmd_error (*accept)(struct gemmd_request *request, const struct answer *answer);
    /* Reads the document of a complete answer that has no payload, adding to `answer` what it says.
     * As above. NULL: it is not read. */
    enum gemmd_error (*conclude)(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes);
};

/* Whether an answer of that status is no failure. */
bool operation_takes(const struct operation *operation, int status);

#endif
