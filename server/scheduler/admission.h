/*
 * admission.h - the decision whether a request is admitted: reservations of requests and bytes, in
 * total and for each tenant.
 *
 * A request makes a reservation at its headers and gives the reservation back when the request is
 * over. The limits are exact: reservations never exceed a limit, and a reservation that fits is
 * never refused. Thread-safe. Taking, growing and giving back take no lock.
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
    ADMISSION_LIMIT_TENANT_BYTES, /* tenant_bytes, and tenant_share_bytes */
    ADMISSION_LIMIT_COUNT
};

struct admission_limits {
    uint32_t requests; /* of all tenants together */
    uint64_t bytes;    /* of all tenants together */
    uint32_t tenants;  /* tenants have the numbers 0 ... tenants - 1; 0 counts as one tenant */
    uint32_t tenant_requests; /* of each tenant; 0: a tenant has no limit of its own */
    uint64_t tenant_bytes;    /* of each tenant; 0: a tenant has no limit of its own */
    /* The share of each tenant in `bytes`; 0: no share. A single request may be larger than the
     * share, if its tenant has no other request. */
    uint64_t tenant_share_bytes;
};

struct admission_held {
    uint64_t requests, bytes;
};

/* NULL: out of memory. */
struct admission *admission_create(const struct admission_limits *limits);
/* Changes all limits except the number of tenants. Reservations that exceed a lowered limit stay,
 * and further reservations are refused. An admission that was created for one tenant, without
 * limits of its own, ignores the limits of tenants here too. Any thread. */
void admission_set_limits(struct admission *admission, const struct admission_limits *limits);
/* NULL is allowed. */
void admission_destroy(struct admission *admission);

/* The reservation of one request. Zeroed: no reservation. Its owner is the one that gives it back.
 */
struct reservation {
    struct admission *admission; /* NULL: no reservation is held */
    uint32_t tenant;
    uint64_t bytes;
};

/* Makes a reservation for one request of `bytes`, and sets `reservation`, which holds none.
 * GEMMD_ERR_QUEUE_FULL: the reservation would exceed a limit, which the fault names.
 * GEMMD_ERR_TOO_LARGE: it would exceed a limit even if there were no other reservation. */
enum gemmd_error admission_take(struct admission *admission, uint32_t tenant, uint64_t bytes,
                                struct reservation *reservation, struct fault *fault);
/* Enlarges a reservation to `bytes` bytes, unless it has as many already. Errors are those of
 * admission_take; the reservation then stays as it was. */
enum gemmd_error admission_grow(struct reservation *reservation, uint64_t bytes,
                                struct fault *fault);
/* Gives the reservation back, if one is held. May be called again. */
void admission_give(struct reservation *reservation);
/* Hands the reservation over to another owner. `reservation` then holds none. */
struct reservation admission_move(struct reservation *reservation);

/* An answer of fewer bytes is taken by the socket's buffer at once, so that it holds no
 * reservation. */
enum { ADMISSION_SENT_AT_ONCE_BYTES = 64 * 1024 };
/* Keeps `sent` bytes of a reservation for the time that an answer takes to be sent, during which
 * the request still counts, or gives the reservation back if the answer is sent at once. */
void admission_keep(struct reservation *reservation, uint64_t sent);

/* Records how many requests and bytes have ended, for Retry-After. Called by a timer several times
 * a second, always from the same thread. */
void admission_sample(struct admission *admission, uint64_t now_ns);
/* Seconds until admission_take may succeed with the same arguments, at the rate at which
 * reservations were given back lately: 1 ... DRAIN_SECONDS_MAX, for Retry-After. */
uint32_t admission_wait_s(struct admission *admission, uint32_t tenant, uint64_t bytes);
/* Seconds until `bytes` of any requests have ended, at the same rate and in the same range. */
uint32_t admission_drain_s(struct admission *admission, uint64_t bytes);

/* The requests and bytes that are reserved now, in total and by one tenant; for metrics. */
struct admission_held admission_held(const struct admission *admission);
struct admission_held admission_held_by(const struct admission *admission, uint32_t tenant);
/* Number of requests that were refused because of a limit so far. */
uint64_t admission_refused(const struct admission *admission, enum admission_limit limit);
/* The name of a limit, which is the name of its option: "tenant-bytes". */
const char *admission_limit_name(enum admission_limit limit);

#endif
