/*
 * description.h - reads the JSON objects in which the daemon describes tensors and jobs. Members
 * that the library does not know are ignored.
 */
#ifndef CLIENT_DESCRIPTION_H
#define CLIENT_DESCRIPTION_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdbool.h>

/* Reads {"name", "dtype", "shape", "bytes", "etag", "evictable"}. False if one of the first three
 * is missing or malformed. */
bool description_tensor(json_t *object, struct gemmd_tensor *tensor);
/* Reads {"id", "state", "status", "bytes", "queued_ms", "running_ms", "created", "expires",
 * "request_id"}. False if one of the first two is missing or malformed. */
bool description_job(json_t *object, struct gemmd_job *job);
/* As description_job, for a job in a list, which may have no id: `job->id` is then "". */
bool description_listed_job(json_t *object, struct gemmd_job *job);

#endif
