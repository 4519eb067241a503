/*
 * region_endpoints.h - the endpoints of the Open Inference Protocol's shared-memory extensions,
 * below /v2/systemsharedmemory and /v2/cudasharedmemory. All functions run on the request's I/O
 * thread.
 */
#ifndef SERVER_API_V2_REGION_ENDPOINTS_H
#define SERVER_API_V2_REGION_ENDPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/shm/regions.h"
#include "server/shm/shm_store.h"

struct request;

/* The longest body of a registration in bytes. Every valid key or handle fits, with its JSON. */
enum { REGION_BODY_MAX = 2048 };

/* The state of a request to register a region. */
struct region_call {
    struct request *request; /* borrowed; owns this state */
    struct region_owner owner;
    struct region region;
    struct shm_offer offer;
    uint64_t bytes; /* received so far, in `body` */
    char body[REGION_BODY_MAX];
};

/* Finds the owner of the regions that a request may use: the request's tenant, and the client's
 * user on this host. GEMMD_ERR_FORBIDDEN, in request->fault, if the client is not on this host. */
enum gemmd_error region_owner_of(struct request *request, struct region_owner *owner);

/* The functions of the endpoints for the status of regions and for removing regions, of one region
 * or of all, and of the endpoint that registers a region. */
void region_status_begin(struct request *request);
void region_unregister_begin(struct request *request);
void region_register_begin(struct request *request);
bool region_register_chunk(struct request *request, const void *bytes, uint64_t length);
void region_register_submit(struct request *request);
void region_register_answer(struct request *request);
void region_register_release(struct request *request);

#endif
