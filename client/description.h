/*
 * description.h - the JSON objects in which the daemon describes tensors and jobs. Members that
 * this library does not know are passed over.
 */
#ifndef CLIENT_DESCRIPTION_H
#define CLIENT_DESCRIPTION_H

#include <gemmd/gemmd.h>
#include <jansson.h>
#include <stdbool.h>

/* {"name", "dtype", "shape", "bytes", "etag", "evictable"}, of which the first three must be there.
 * False if it is no such object. */
bool description_tensor(json_t *object, struct gemmd_tensor *tensor);
/* {"id", "state", "status", "bytes", "queued_ms", "running_ms", "created", "expires",
 * "request_id"}, of which the first two must be there. False if it is no such object. */
bool description_job(json_t *object, struct gemmd_job *job);

#endif
