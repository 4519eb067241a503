/*
 * operation.h - the properties that all requests of one kind share, such as the HTTP method.
 *
 * Every operation is a constant in the file with the functions that make the operation's requests
 * (compute.c, gemm.c, tensor.c, job.c, daemon.c). Any thread may read an operation; `accept` and
 * `conclude` are called in the thread that uses the client.
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

enum { OPERATION_STATUSES = 4 };

struct operation {
    const char *method;
    enum headers headers;
    bool sends;                       /* the request has a body, which may be empty */
    bool prefers_async;               /* send "Prefer: respond-async", to hand in a job */
    int statuses[OPERATION_STATUSES]; /* statuses of answers that are not failures; 0 ends the list
                                       */
    /* The query parameter that gives the daemon the remaining time, and the largest value that the
     * client sends. NULL: the operation has no query parameter for the remaining time. */
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

/* Returns whether the operation's statuses contain `status`, that is, whether an answer with the
 * status is not a failure. */
bool operation_takes(const struct operation *operation, int status);

#endif
