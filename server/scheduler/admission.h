/*
 * admission.h - who may come in: admission by count and by bytes, in total and for each tenant.
 *
 * A place is taken at a request's headers and given back when the request is over. The limits are
 * exact: no more is ever held, and nobody is refused while there is room. No lock is taken but for
 * a refusal's Retry-After. Thread-safe.
 */
#ifndef SERVER_SCHEDULER_ADMISSION_H
#define SERVER_SCHEDULER_ADMISSION_H

#include <stdint.h>

#include "proto/error.h"

struct admission;

enum admission_limit {
    ADMISSION_LIMIT_REQUESTS,
    ADMISSION_LIMIT_BYTES,
    ADMISSION_LIMIT_TENANT_REQUESTS,
    ADMISSION_LIMIT_TENANT_BYTES,
    ADMISSION_LIMIT_COUNT
};

struct admission_limits {
    uint32_t requests; /* in total */
    uint64_t bytes;
    uint32_t tenants;         /* 0 ... tenants - 1; 0 counts as one */
    uint32_t tenant_requests; /* of each; 0: no own limit */
    uint64_t tenant_bytes;
};

struct admission_held {
    uint64_t requests, bytes;
};

struct admission *admission_create(const struct admission_limits *limits); /* NULL: out of memory */
void admission_destroy(struct admission *admission);                       /* NULL is allowed */

/* Takes a place. GEMMD_ERR_QUEUE_FULL names the limit that it would exceed, GEMMD_ERR_TOO_LARGE one
 * that it would exceed if nothing else were held. */
enum gemmd_error admission_reserve(struct admission *admission, uint32_t tenant, uint64_t bytes,
                                   struct fault *fault);
/* Adds `more` to the bytes of a place that has `bytes`; refused as above, the place is as it was.
 */
enum gemmd_error admission_grow(struct admission *admission, uint32_t tenant, uint64_t bytes,
                                uint64_t more, struct fault *fault);
/* Gives one back that was taken with the same tenant and bytes. */
void admission_release(struct admission *admission, uint32_t tenant, uint64_t bytes);

/* Looks at how much has ended; called by a timer, some times a second, from one thread. */
void admission_sample(struct admission *admission, uint64_t now_ns);
/* Seconds until admission_reserve with these arguments may succeed, at the rate at which admission
 * came free lately: 1 ... DRAIN_SECONDS_MAX, as Retry-After wants it. */
uint32_t admission_wait_s(struct admission *admission, uint32_t tenant, uint64_t bytes);
/* Seconds until so many bytes of anyone's requests have ended, likewise. */
uint32_t admission_drain_s(struct admission *admission, uint64_t bytes);

/* For metrics. */
struct admission_held admission_held(const struct admission *admission);
struct admission_held admission_held_by(const struct admission *admission, uint32_t tenant);
/* How many were refused for a limit so far. */
uint64_t admission_refused(const struct admission *admission, enum admission_limit limit);
const char *
admission_limit_name(enum admission_limit limit); /* "tenant-bytes", as the option is called */

#endif
