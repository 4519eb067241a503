/*
 * notable.h - keeps the last requests that failed or were slow, for operators who look into an
 * incident.
 *
 * Each tenant has a list of its last NOTABLE_EACH failed requests and one of slow requests, and so
 * have the requests without a valid token. No list displaces another, as long as the lists of a
 * kind have NOTABLE_PLACES requests together at most. Beyond that, the longest list loses its
 * oldest request. The lists take 2.9 MiB with many tenants, and 280 KiB without tokens, of which
 * only the part that was ever used is touched. Of each tenant and kind at most NOTABLE_PER_SECOND
 * requests a second are kept, so that in a flood of refusals each further request costs an I/O
 * thread only one comparison. A request that succeeded and was not slow costs two comparisons.
 */
#ifndef SERVER_OBSERVE_NOTABLE_H
#define SERVER_OBSERVE_NOTABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/observe/log.h"
#include "server/observe/metrics.h"

enum { NOTABLE_EACH = 100, NOTABLE_PER_SECOND = 16, NOTABLE_PLACES = 2048 };
/* The tenant of a request that was refused before its token was found to be valid. */
#define NOTABLE_NO_TENANT UINT32_MAX

enum notable_kind { NOTABLE_FAILED, NOTABLE_SLOW, NOTABLE_KINDS };

/* A text that is longer than its array is cut. "": not known. */
struct notable_request {
    double time_s; /* when the request ended, since the epoch */
    char id[65], method[16], path[160], op[12], dtype[16], kernel[32], error[40], detail[256];
    int status;
    uint32_t tenant;
    uint64_t m, n, k, batch, total_ns, stages_ns[METRICS_STAGE_COUNT];
};

struct notable;

/* Tenants have the numbers 0 ... tenants - 1, and are fewer than NOTABLE_PLACES. NULL: out of
 * memory.
 */
struct notable *notable_create(uint32_t tenants);
void notable_destroy(struct notable *notable);
/* Whether to add a request of a tenant that ended. Any thread; takes no lock. */
bool notable_wants(struct notable *notable, uint32_t tenant, bool failed, uint64_t total_ns);
/* Adds a request of a tenant for which notable_wants was true. `detail` may be NULL. Any thread. */
void notable_add(struct notable *notable, enum notable_kind kind, uint32_t tenant,
                 const struct log_access *entry, const uint64_t stages_ns[METRICS_STAGE_COUNT],
                 const char *detail);
/* Begins the next second: requests that take longer than `slow_ns` are slow. */
void notable_tick(struct notable *notable, uint64_t slow_ns);
/* How long a request may take before it is slow. */
uint64_t notable_slow_ns(const struct notable *notable);
/* Copies the requests of a kind, newest first, that belong to `tenant`, or `all`. If all are more
 * than NOTABLE_EACH, the same number of each tenant's newest requests is copied as far as possible,
 * so that the requests of one tenant do not hide those of others. Returns how many were copied. Any
 * thread. */
uint32_t notable_read(struct notable *notable, enum notable_kind kind, bool all, uint32_t tenant,
                      struct notable_request requests[NOTABLE_EACH]);

#endif
