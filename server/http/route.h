/* route.h - from method and path to an endpoint, past the one place where tokens are checked. */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include "proto/error.h"

struct request;

/* The path, and what follows it, of a request's target: the absolute form, which a proxy's clients
 * send (RFC 9112, 3.2.2), has a scheme and an authority before it. Borrows from `target`. */
const char *route_path(const char *target);

/* Sets request->endpoint. 404 for an unknown path, 405 for a method the path does not take,
 * 401 without a valid token (checked before the path, so that an outsider learns nothing). */
enum gemmd_error route_find(struct request *request, const char *url, const char *method);

#endif
