/*
 * operation.h - the properties of a kind of request. Every operation is a constant beside the
 * functions that make its requests (compute.c, gemm.c, tensor.c, job.c, daemon.c).
 */
#ifndef CLIENT_OPERATION_H
#define CLIENT_OPERATION_H

#include <gemmd/gemmd.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/answer.h"

/* The sets of request headers. A set of ..._ASK... directly follows the same set of ..._SEND...,
 * from which it differs by "Expect: 100-continue". */
enum headers {
    HEADERS_PLAIN,            /* no more than the token, which all sets have */
    HEADERS_ACCEPT,           /* no body; the answer is to be raw bytes */
    HEADERS_SEND,             /* a body of raw bytes; the answer is to be raw bytes */
    HEADERS_ASK,              /* as HEADERS_SEND, the body after 100 Continue */
    HEADERS_SEND_FOR_TENSORS, /* a body of raw bytes; the answer is to be a safetensors file */
    HEADERS_ASK_FOR_TENSORS,  /* as HEADERS_SEND_FOR_TENSORS, the body after 100 Continue */
    HEADERS_PUT,              /* a body of raw bytes after 100 Continue; no Accept */
    HEADERS_COUNT
};

enum { OPERATION_STATUSES = 4 };

struct operation {
    const char *method;
    enum headers headers;
    bool sends;                       /* the request has a body, which may be empty */
    bool prefers_async;               /* send "Prefer: respond-async", to hand in a job */
    int statuses[OPERATION_STATUSES]; /* statuses of answers that are no failure; 0 ends the list */
    /* The query parameter that tells the daemon the remaining time, and the largest value that is
     * sent; NULL: the operation has no such parameter */
    const char *time_parameter;
    uint32_t time_max_ms;
    const char *missing; /* message for a 404 to a HEAD request, which has no body; NULL: none */
    bool waits;          /* 409 means that the job is not done: ask again until the time is over */
    /* Checks the header of an answer that is no failure, before the payload arrives, and prepares
     * request->sink. Returns an error code and fills in request->error if the answer does not match
     * the request. NULL: every answer matches. */
    enum gemmd_error (*accept)(struct gemmd_request *request, const struct answer *answer);
    /* Reads the document of a complete answer without a payload, and fills in `answer` from it.
     * Returns an error code and fills in request->error if the document is malformed. NULL: the
     * document is not read. */
    enum gemmd_error (*conclude)(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes);
};

/* Whether an answer with this status is no failure. */
bool operation_takes(const struct operation *operation, int status);

#endif
