/*
 * endpoints.h - the endpoints of the daemon, in a list for each folder or file of server/api, and
 * the table of all lists. An endpoint without a path ends a list. Constant; any thread.
 */
#ifndef SERVER_API_ENDPOINTS_H
#define SERVER_API_ENDPOINTS_H

#include "server/http/endpoint.h"

extern const struct endpoint compute_endpoints[]; /* /gemm, ... (compute/compute_endpoints.c) */
extern const struct endpoint job_endpoints[];     /* /jobs/... (jobs/job_endpoints.c) */
extern const struct endpoint health_endpoints[];  /* /livez, /readyz, ... (health.c) */
extern const struct endpoint info_endpoints[];    /* /metrics, /info, ... (info.c) */
extern const struct endpoint tensor_endpoints[];  /* /tensors... (tensors/tensor_endpoints.c) */
extern const struct endpoint
    sequence_endpoints[];                      /* /sequences... (tensors/sequence_endpoints.c) */
extern const struct endpoint feed_endpoints[]; /* /dashboard/... (dashboard/feed.c) */
extern const struct endpoint page_endpoints[]; /* / and /docs (page.c) */
extern const struct endpoint v2_endpoints[];   /* /v2... (v2/v2_endpoints.c) */

/* The lists in the order in which they are tried (routes.c); NULL ends the table. */
extern const struct endpoint *const routes[];

#endif
