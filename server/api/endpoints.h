/*
 * endpoints.h - the lists of endpoints, one for each folder or file of server/api. An endpoint
 * without a path ends a list.
 */
#ifndef SERVER_API_ENDPOINTS_H
#define SERVER_API_ENDPOINTS_H

#include "server/http/endpoint.h"

extern const struct endpoint dashboard_endpoints[]; /* / (dashboard/endpoints.c) */
extern const struct endpoint docs_endpoints[];      /* /docs (docs/endpoints.c) */
extern const struct endpoint feed_endpoints[];      /* /dashboard/... (dashboard/feed.c) */
extern const struct endpoint compute_endpoints[];   /* /gemm, ... (compute/endpoints.c) */
extern const struct endpoint job_endpoints[];       /* /jobs/... (jobs/endpoints.c) */
extern const struct endpoint health_endpoints[];    /* /livez, /readyz, ... (health.c) */
extern const struct endpoint info_endpoints[];      /* /metrics, /info, ... (info.c) */
extern const struct endpoint tensor_endpoints[];    /* /tensors... (tensors/endpoints.c) */
extern const struct endpoint v2_endpoints[];        /* /v2... (v2/endpoints.c) */

#endif
