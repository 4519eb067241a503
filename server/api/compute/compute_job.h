/*
 * compute_job.h - a POST /gemm or /attention with Prefer: respond-async: the product outlives its
 * connection.
 *
 * All on the request's I/O thread.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_JOB_H
#define SERVER_API_COMPUTE_COMPUTE_JOB_H

#include <stdbool.h>

#include "proto/error.h"

struct request;

/* Whether the request asks for a job and the daemon makes any. While it drains it does not: the
 * result might have nowhere to be fetched from, so that the client had better wait for it. Neither
 * does it for a product in memory that goes with its connection. */
bool compute_job_wanted(const struct request *request);
/* At the headers, once the call is open: takes a place among the jobs and, if the shapes are known,
 * the room for the result. It is in request->job then. */
enum gemmd_error compute_job_open(struct request *request);
/* The body is complete and the call is bound: hands the call over to the job, queues its work and
 * answers 202; or answers why not. */
void compute_job_submit(struct request *request);

#endif
