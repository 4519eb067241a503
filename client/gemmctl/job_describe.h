/*
 * job_describe.h - the description of a job in JSON, for gemmctl job status, wait and ls.
 */
#ifndef GEMMCTL_JOB_DESCRIBE_H
#define GEMMCTL_JOB_DESCRIBE_H

#include <jansson.h>

#include "client/gemmctl/command.h"

/* Returns a new object with the members id, state, op, request_id, created, queued_ms and, once the
 * daemon reports them, running_ms, http_status, bytes and expires. NULL: out of memory. */
json_t *job_describe(const struct gemmd_job *job);

#endif
