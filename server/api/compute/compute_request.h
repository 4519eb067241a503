/*
 * compute_request.h - the state of a request to compute (POST /gemm, POST /attention and the
 * others), which request->call points to. Only the request's I/O thread uses the state.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_REQUEST_H
#define SERVER_API_COMPUTE_COMPUTE_REQUEST_H

#include "server/api/compute/compute_call.h"

struct job;
struct request;

struct compute_request {
    struct request *request; /* borrowed; owns this state */
    struct job *job;         /* of a request with a job, until its work is queued; else NULL */
    struct compute_call call;
};

#endif
