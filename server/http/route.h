/* route.h - from method and path to an endpoint, past the one place where tokens are checked. */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include "proto/error.h"

struct request;

/* Sets request->endpoint. 404 for an unknown path, 405 for a method the path does not take,
 * 401 without a valid token (checked before the path, so that an outsider learns nothing). */
enum gemmd_error route_find(struct request *request, const char *url, const char *method);

#endif
