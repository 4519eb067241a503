#include "server/http/route.h"

#include <string.h>

#include "server/daemon.h"
#include "server/http/endpoints.h"
#include "server/http/request.h"

static const struct endpoint *const endpoints[] = {
    &endpoint_gemm,    &endpoint_livez, &endpoint_readyz,
    &endpoint_metrics, &endpoint_info,  &endpoint_openapi,
};

static bool allows(const char *allow, const char *method)
{
    size_t length = strlen(method);
    for (const char *p = allow; (p = strstr(p, method)) != NULL; p += length)
        if ((p == allow || p[-1] == ' ') && (p[length] == '\0' || p[length] == ','))
            return true;
    return false;
}

enum gemmd_error route_find(struct request *request, const char *url, const char *method)
{
    const struct endpoint *found = NULL;
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++)
        if (strcmp(url, endpoints[i]->path) == 0)
            found = endpoints[i];

    const struct tokens *tokens = request->daemon->tokens;
    if (tokens != NULL && (found == NULL || !found->open) &&
        !tokens_check(tokens, request_header(request, "Authorization"), &request->tenant))
        return fault_set(&request->fault, GEMMD_ERR_UNAUTHORIZED, NULL,
                         "send Authorization: Bearer with a valid token");
    if (found == NULL)
        return fault_set(&request->fault, GEMMD_ERR_NOT_FOUND, NULL,
                         "there is nothing at this path; see /openapi.json for what there is");
    request->endpoint = found;
    if (!allows(found->allow, method))
        return fault_set(&request->fault, GEMMD_ERR_METHOD_NOT_ALLOWED, NULL, "this path takes %s",
                         found->allow);
    return GEMMD_OK;
}
