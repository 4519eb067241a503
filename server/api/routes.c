#include "server/api/endpoints.h"

/* v2_endpoints must be last: its last endpoint serves all paths below /v2. */
const struct endpoint *const routes[] = {
    compute_endpoints,  job_endpoints,  health_endpoints, info_endpoints, tensor_endpoints,
    sequence_endpoints, feed_endpoints, page_endpoints,   v2_endpoints,   NULL,
};
