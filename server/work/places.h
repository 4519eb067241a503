/*
 * places.h - who may come in: places by count and by bytes, in total and for each tenant.
 *
 * A place is taken at a request's headers and given back when the request is over. The limits are
 * exact: no more is ever held, and nobody is refused while there is room. No lock is taken but for
 * a refusal's Retry-After. Thread-safe.
 */
#ifndef SERVER_WORK_PLACES_H
#define SERVER_WORK_PLACES_H

#include <stdint.h>

#include "proto/error.h"

struct places;

enum places_limit {
    PLACES_LIMIT_REQUESTS,
    PLACES_LIMIT_BYTES,
    PLACES_LIMIT_TENANT_REQUESTS,
    PLACES_LIMIT_TENANT_BYTES,
    PLACES_LIMIT_COUNT
};

struct places_limits {
    uint32_t requests; /* in total */
    uint64_t bytes;
    uint32_t tenants;         /* 0 ... tenants - 1; 0 counts as one */
    uint32_t tenant_requests; /* of each; 0: no own limit */
    uint64_t tenant_bytes;
};

struct places_held {
    uint64_t requests, bytes;
};

struct places *places_create(const struct places_limits *limits); /* NULL: out of memory */
void places_destroy(struct places *places);                       /* NULL is allowed */

/* Takes a place. GEMMD_ERR_QUEUE_FULL names the limit that it would exceed, GEMMD_ERR_TOO_LARGE one
 * that it would exceed if nothing else were held. */
enum gemmd_error places_take(struct places *places, uint32_t tenant, uint64_t bytes,
                             struct fault *fault);
/* Adds `more` to the bytes of a place that has `bytes`; refused as above, the place is as it was.
 */
enum gemmd_error places_take_more(struct places *places, uint32_t tenant, uint64_t bytes,
                                  uint64_t more, struct fault *fault);
/* Gives one back that was taken with the same tenant and bytes. */
void places_give(struct places *places, uint32_t tenant, uint64_t bytes);

/* Looks at how much has ended; called by a timer, some times a second, from one thread. */
void places_sample(struct places *places, uint64_t now_ns);
/* Seconds until places_take with these arguments may succeed, at the rate at which places came free
 * lately: 1 ... DRAIN_SECONDS_MAX, as Retry-After wants it. */
uint32_t places_wait_s(struct places *places, uint32_t tenant, uint64_t bytes);
/* Seconds until so many bytes of anyone's requests have ended, likewise. */
uint32_t places_drain_s(struct places *places, uint64_t bytes);

/* For metrics. */
struct places_held places_held(const struct places *places);
struct places_held places_held_by(const struct places *places, uint32_t tenant);
/* How many were refused for a limit so far. */
uint64_t places_refused(const struct places *places, enum places_limit limit);
const char *
places_limit_name(enum places_limit limit); /* "tenant-bytes", as the option is called */

#endif
