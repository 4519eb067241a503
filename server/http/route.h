/* route.h - finds the endpoint for a method and a path, and checks the request's token. */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include "proto/error.h"

struct request;

/* The path and query of a request's target. Clients of a proxy send the absolute form (RFC 9112,
 * 3.2.2), which has a scheme and an authority before the path. The result points into `target`,
 * or to a static "/". Pure. */
const char *route_path(const char *target);

/* Sets request->endpoint, request->name, request->rest, and what the request's credential gives:
 * tenant, tenant_number, scopes, max_priority, and `challenge` if the credential does not suffice.
 * On the request's I/O thread. Errors are set in request->fault: GEMMD_ERR_UNAUTHORIZED without a
 * valid credential, GEMMD_ERR_FORBIDDEN for a credential that lacks the endpoint's scope,
 * GEMMD_ERR_NOT_FOUND for an unknown path, GEMMD_ERR_METHOD_NOT_ALLOWED for a method that the path
 * does not allow. The token is checked first, so that a client without a token does not learn which
 * paths exist. */
enum gemmd_error route_find(struct request *request, const char *url, const char *method);

#endif
