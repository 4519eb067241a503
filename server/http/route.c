#include "server/http/request_parts.h"

#include <string.h>
#include <strings.h>

#include "proto/nearest.h"
#include "proto/parameter.h"
#include "server/http/connection.h"
#include "server/http/cors.h"
#include "server/http/endpoint.h"
#include "server/http/respond.h"
#include "server/http/server.h"
#include "server/http/tls.h"
#include "server/http/tokens.h"

const char *route_path(const char *target)
{
    static const char scheme[] = "http://";
    if (strncasecmp(target, scheme, sizeof scheme - 1) != 0)
        return target;
    const char *path = strpbrk(target + sizeof scheme - 1, "/?");
    return path != NULL && *path == '/' ? path : "/";
}

static bool method_allowed(const char *allow, const char *method)
{
    size_t length = strlen(method);
    for (const char *p = allow; (p = strstr(p, method)) != NULL; p += length)
        if ((p == allow || p[-1] == ' ') && (p[length] == '\0' || p[length] == ','))
            return true;
    return false;
}

/* Whether an endpoint's path stands for all paths below it. The path / is only the dashboard's. */
static bool has_below(const char *pattern)
{
    const size_t length = strlen(pattern);
    return length > 1 && pattern[length - 1] == '/';
}

/* Whether a path, as the client sent it, lies below an endpoint's path. */
static bool is_below(const char *pattern, const char *path)
{
    return has_below(pattern) && strncmp(pattern, path, strlen(pattern)) == 0;
}

/* Whether an endpoint serves a path: the path is equal to the endpoint's, has text in place of the
 * {...}, or lies below it. Sets request->name and request->rest. */
static bool pattern_fits(const char *pattern, const char *path, struct request *request)
{
    const size_t before = strcspn(pattern, "{");
    request->name[0] = '\0';
    if (request->escapes_slash && !is_below(pattern, request->path))
        return false; /* an escaped slash separates nothing; only paths below / may have one */
    if (pattern[before] == '\0' && !has_below(pattern))
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, before) != 0)
        return false;
    request->rest = path + before;
    if (pattern[before] == '\0')
        return true;
    const char *after = strchr(pattern, '}') + 1;
    size_t length = strcspn(path + before, "/");
    if (length == 0 || length > REQUEST_NAME_MAX || strcmp(path + before + length, after) != 0)
        return false;
    memcpy(request->name, path + before, length);
    request->name[length] = '\0';
    return true;
}

/* Whether an endpoint serves exactly this path, and not all paths below its own. */
static bool is_served(struct request *request, const char *path)
{
    for (const struct endpoint *const *list = request->server->routes; *list != NULL; list++)
        for (const struct endpoint *e = *list; e->path != NULL; e++)
            if (!e->unlisted && !has_below(e->path) && pattern_fits(e->path, path, request))
                return true;
    return false;
}

const char *route_hint(struct request *request, const char *path, char hint[PARAMETER_HINT_BYTES])
{
    char without[PARAMETER_HINT_BYTES];
    struct nearest search;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (path[length] == '/' && length + sizeof "; did you mean ?" <= sizeof without) {
        const char *rest = request->rest;
        memcpy(without, path, length);
        without[length] = '\0';
        const bool served = is_served(request, without);
        request->rest = rest;
        request->name[0] = '\0';
        if (served)
            return parameter_hint(without, hint);
    }
    nearest_start(&search, path, strlen(path));
    for (const struct endpoint *const *list = request->server->routes; *list != NULL; list++)
        for (const struct endpoint *e = *list; e->path != NULL; e++)
            if (!e->unlisted && strchr(e->path, '{') == NULL && !has_below(e->path) &&
                e->path[1] != '\0')
                nearest_offer(&search, e->path);
    return parameter_hint(search.best, hint);
}

/* Refuses a path that no endpoint serves, and suggests one that an endpoint does serve. */
static enum gemmd_error refuse_path(struct request *request, const char *path)
{
    char hint[PARAMETER_HINT_BYTES];
    return fault_set(&request->fault, GEMMD_ERR_NOT_FOUND, NULL,
                     "there is nothing at this path; /openapi.json lists all paths%s",
                     route_hint(request, path, hint));
}

/* Looks up the names of the client's certificate, for a request without an Authorization header. */
static enum token_verdict check_certificate(const struct request *request,
                                            struct token_grant *grant)
{
    enum token_verdict verdict = TOKEN_MISSING;
    const char *name = tls_client_names(request->connection);
    for (; name != NULL && *name != '\0' && verdict != TOKEN_GRANTED; name += strlen(name) + 1) {
        const enum token_verdict one =
            tokens_check_certificate(request->server->tokens, name, grant);
        if (one != TOKEN_INVALID)
            verdict = one;
    }
    return verdict;
}

static const char *scope_name(enum token_scope scope)
{
    switch (scope) {
    case SCOPE_COMPUTE:
        return "compute";
    case SCOPE_TENSORS:
        return "tensors";
    case SCOPE_METRICS:
        return "metrics";
    case SCOPE_ADMIN:
        return "admin";
    case SCOPE_ANY:
    case SCOPES_ALL:
        break;
    }
    return "";
}

static enum gemmd_error refuse_credential(struct request *request, enum token_verdict verdict)
{
    request->challenge = verdict == TOKEN_MISSING ? "Bearer" : "Bearer error=\"invalid_token\"";
    return verdict == TOKEN_EXPIRED
               ? fault_set(&request->fault, GEMMD_ERR_UNAUTHORIZED, NULL, "the token has expired")
               : fault_set(&request->fault, GEMMD_ERR_UNAUTHORIZED, NULL,
                           "send Authorization: Bearer with a valid token");
}

static enum gemmd_error refuse_scope(struct request *request, enum token_scope scope)
{
    static const char *const challenges[] = {
        [SCOPE_COMPUTE] = "Bearer error=\"insufficient_scope\", scope=\"compute\"",
        [SCOPE_TENSORS] = "Bearer error=\"insufficient_scope\", scope=\"tensors\"",
        [SCOPE_METRICS] = "Bearer error=\"insufficient_scope\", scope=\"metrics\"",
        [SCOPE_ADMIN] = "Bearer error=\"insufficient_scope\", scope=\"admin\"",
    };
    request->challenge = challenges[scope];
    return fault_set(&request->fault, GEMMD_ERR_FORBIDDEN, NULL,
                     "the token lacks the scope %s, which this path needs", scope_name(scope));
}

/* The one place that decides whether a request may go on to an endpoint (NULL: nothing is at the
 * path). Without a token file every request may. A request with an Authorization header is judged
 * by its token alone. A request without that header is judged by the first name of its client
 * certificate that the token file lists. */
static enum gemmd_error authorize(struct request *request, const struct endpoint *endpoint)
{
    struct tokens *tokens = request->server->tokens;
    struct token_grant grant;
    if (tokens == NULL || (endpoint != NULL && endpoint->open))
        return GEMMD_OK;
    enum token_verdict verdict =
        tokens_check(tokens, request_header(request, "Authorization"), &grant);
    if (verdict == TOKEN_MISSING)
        verdict = check_certificate(request, &grant);
    /* A refusal of a token that has expired is logged and counted as its tenant's. */
    if (verdict == TOKEN_GRANTED || verdict == TOKEN_EXPIRED) {
        request->tenant_number = grant.tenant;
        request->tenant = tokens_tenant_name(tokens, grant.tenant);
    }
    if (verdict != TOKEN_GRANTED)
        return refuse_credential(request, verdict);
    request->scopes = grant.scopes;
    request->max_priority = grant.max_priority;
    if (endpoint != NULL && (grant.scopes & (uint32_t)endpoint->scope) != (uint32_t)endpoint->scope)
        return refuse_scope(request, endpoint->scope);
    return GEMMD_OK;
}

/* Answers a preflight (cors.h). The answer is the same for every path, so that a page without a
 * token does not learn which paths exist. The star does not cover Authorization. */
static void preflight_begin(struct request *request)
{
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
    headers_add(&headers, "Access-Control-Allow-Headers", "Authorization, *");
    headers_add(&headers, "Access-Control-Max-Age", "600");
    respond_empty(request, 204, &headers, 0);
}

static const struct endpoint preflight = {
    .path = "*",
    .allow = "OPTIONS",
    .op = METRICS_OP_OTHER,
    .open = true,
    .begin = preflight_begin,
};

enum gemmd_error route_find(struct request *request, const char *url, const char *method)
{
    const struct endpoint *found = NULL;
    url = route_path(url);
    if (request->escapes_zero)
        url = ""; /* no endpoint has a path with a zero byte */
    for (const struct endpoint *const *list = request->server->routes; *list != NULL; list++)
        for (const struct endpoint *e = *list; found == NULL && e->path != NULL; e++)
            if (pattern_fits(e->path, url, request))
                found = e;

    if (request->config->allow_origin != NULL && cors_is_preflight(request, method))
        found = &preflight;
    if (authorize(request, found) != GEMMD_OK)
        return request->fault.code;
    if (found == NULL)
        return refuse_path(request, url);
    request->endpoint = found;
    if (!method_allowed(found->allow, method))
        return fault_set(&request->fault, GEMMD_ERR_METHOD_NOT_ALLOWED, NULL, "this path takes %s",
                         found->allow);
    return GEMMD_OK;
}
