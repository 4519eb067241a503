/* endpoints.h - every path of the Open Inference Protocol that is served. */
#ifndef SERVER_API_V2_ENDPOINTS_H
#define SERVER_API_V2_ENDPOINTS_H

#include "server/http/request.h"

/* In the order in which they are tried; the last stands for all that are not. */
extern const struct endpoint v2_endpoints[];
extern const uint32_t v2_endpoint_count;

#endif
