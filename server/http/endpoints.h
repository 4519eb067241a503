/* endpoints.h - every path that is served. See struct endpoint in request.h. */
#ifndef SERVER_HTTP_ENDPOINTS_H
#define SERVER_HTTP_ENDPOINTS_H

#include "server/http/request.h"

extern const struct endpoint endpoint_dashboard;  /* GET / (endpoint_dashboard.c) */
extern const struct endpoint endpoint_gemm;       /* POST /gemm (endpoint_compute.c) */
extern const struct endpoint endpoint_attention;  /* POST /attention */
extern const struct endpoint endpoint_job;        /* GET, DELETE /jobs/{id} (endpoint_jobs.c) */
extern const struct endpoint endpoint_job_result; /* GET /jobs/{id}/result */
extern const struct endpoint endpoint_livez;      /* GET /livez (endpoint_health.c) */
extern const struct endpoint endpoint_readyz;     /* GET /readyz */
extern const struct endpoint endpoint_metrics;    /* GET /metrics (endpoint_info.c) */
extern const struct endpoint endpoint_info;       /* GET /info */
extern const struct endpoint endpoint_openapi;    /* GET /openapi.json */
extern const struct endpoint endpoint_tensors;    /* GET /tensors (endpoint_tensors.c) */
extern const struct endpoint endpoint_tensor;     /* /tensors/{name} */

#endif
