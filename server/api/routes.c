#include "server/api/routes.h"

#include "server/api/endpoints.h"

/* v2_endpoints must be last: its last endpoint serves all paths below /v2. */
const struct endpoint *const routes[] = {
    dashboard_endpoints, compute_endpoints, job_endpoints,  health_endpoints, info_endpoints,
    tensor_endpoints,    feed_endpoints,    docs_endpoints, v2_endpoints,     NULL,
};
