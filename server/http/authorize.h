/*
 * authorize.h - the one place that decides whether a request may go on to an endpoint.
 */
#ifndef SERVER_HTTP_AUTHORIZE_H
#define SERVER_HTTP_AUTHORIZE_H

#include "proto/error.h"

struct endpoint;
struct request;

/* Checks the credentials of a request for an endpoint (NULL: nothing is at the path), and sets
 * request->tenant, request->tenant_number, request->scopes and request->challenge. Without a token
 * file every request is allowed. A request with an Authorization header is judged by its token
 * alone. A request without that header is judged by the first name of its client certificate that
 * the token file lists. GEMMD_ERR_UNAUTHORIZED: no valid credential; GEMMD_ERR_FORBIDDEN: the
 * credential lacks the endpoint's scope. On the request's I/O thread. */
enum gemmd_error authorize(struct request *request, const struct endpoint *endpoint);

#endif
