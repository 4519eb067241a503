/*
 * compute_request.h - the state of a POST /gemm or POST /attention: what request->call points to.
 * On the request's I/O thread.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_REQUEST_H
#define SERVER_API_COMPUTE_COMPUTE_REQUEST_H

#include "server/api/compute/compute_call.h"

struct job;
struct request;

struct compute_request {
    struct request *request; /* the one that this is the state of */
    struct job *job;         /* Prefer: respond-async, until the work is queued; else NULL */
    struct compute_call call;
};

#endif
