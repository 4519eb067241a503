/*
 * compute_job.h - jobs: requests to compute with Prefer: respond-async, whose results the client
 * fetches later, over any connection.
 *
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_API_COMPUTE_COMPUTE_JOB_H
#define SERVER_API_COMPUTE_COMPUTE_JOB_H

#include "proto/error.h"

struct request;

/* Opens a job at the request's headers, after compute_call_open, and reserves the bytes of the
 * result if the shapes are known. Sets the field `job` of struct compute_request. Errors are in
 * request->fault. */
enum gemmd_error compute_job_open(struct request *request);
/* Moves the bound call to the job, queues its work and answers 202. On failure the request is
 * answered with the error. To be called after compute_call_bind. */
void compute_job_submit(struct request *request);

#endif
