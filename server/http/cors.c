#include "server/http/cors.h"

#include <string.h>

#include "server/http/request.h"

/* Whether `origin`, as a browser sends it, is one of the comma-separated `origins`. */
static bool is_listed(const char *origins, const char *origin)
{
    const size_t length = strlen(origin);
    for (;;) {
        const size_t entry = strcspn(origins, ",");
        if (entry == length && memcmp(origins, origin, length) == 0)
            return true;
        if (origins[entry] == '\0')
            return false;
        origins += entry + 1;
    }
}

/* Returns the origin of the request if --allow-origin has it, else NULL. */
static const char *allowed_origin(const struct request *request)
{
    const char *origin = request_header(request, "Origin");
    return origin != NULL && is_listed(request->config->allow_origin, origin) ? origin : NULL;
}

bool cors_is_preflight(const struct request *request, const char *method)
{
    return strcmp(method, "OPTIONS") == 0 &&
           request_header(request, "Access-Control-Request-Method") != NULL &&
           allowed_origin(request) != NULL;
}

bool cors_add_headers(const struct request *request, struct MHD_Response *response)
{
    const char *origin = allowed_origin(request);
    if (MHD_add_response_header(response, "Vary", "Origin") != MHD_YES)
        return false;
    return origin == NULL ||
           (MHD_add_response_header(response, "Access-Control-Allow-Origin", origin) == MHD_YES &&
            MHD_add_response_header(response, "Access-Control-Expose-Headers", "*") == MHD_YES);
}
