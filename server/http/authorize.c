#include "server/http/authorize.h"

#include <string.h>

#include "server/http/connection.h"
#include "server/http/endpoint.h"
#include "server/http/request.h"
#include "server/http/server_state.h"
#include "server/http/tls.h"
#include "server/http/tokens.h"

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

static enum gemmd_error refuse(struct request *request, enum token_verdict verdict)
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

enum gemmd_error authorize(struct request *request, const struct endpoint *endpoint)
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
        return refuse(request, verdict);
    request->scopes = grant.scopes;
    request->max_priority = grant.max_priority;
    if (endpoint != NULL && (grant.scopes & (uint32_t)endpoint->scope) != (uint32_t)endpoint->scope)
        return refuse_scope(request, endpoint->scope);
    return GEMMD_OK;
}
