/*
 * regions.h - the shared memory extensions of the Open Inference Protocol: what is at
 * /v2/systemsharedmemory and /v2/cudasharedmemory. On the request's I/O thread.
 */
#ifndef SERVER_API_V2_REGIONS_H
#define SERVER_API_V2_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/shm/regions.h"
#include "server/shm/shm_store.h"

struct request;

/* Longer than any key or handle, with the JSON around it. */
enum { REGION_BODY_MAX = 2048 };

/* The state of a request to register a region. */
struct region_call {
    struct request *request; /* the one that this is the state of */
    struct region_owner owner;
    struct region region;
    struct shm_offer offer;
    uint64_t bytes; /* of `body`, so far */
    char body[REGION_BODY_MAX];
};

/* Whose regions a request's are. GEMMD_ERR_FORBIDDEN: its client is not on this host. */
enum gemmd_error region_owner_of(struct request *request, struct region_owner *owner);

/* The endpoints' functions: of status and unregister, with a name or without; the rest of register.
 */
void region_status_begin(struct request *request);
void region_unregister_begin(struct request *request);
void region_register_begin(struct request *request);
bool region_register_chunk(struct request *request, const void *bytes, uint64_t length);
void region_register_submit(struct request *request);
void region_register_answer(struct request *request);
void region_register_release(struct request *request);

#endif
