/*
 * guard.h - refuses requests that a proxy and libmicrohttpd could frame differently (request
 * smuggling). The guard runs before anything else looks at a request, on its I/O thread.
 */
#ifndef SERVER_HTTP_GUARD_H
#define SERVER_HTTP_GUARD_H

#include "proto/error.h"

struct request;

/* Checks the framing of a request, and fills in the fields of `request` that describe its body.
 * Requires that header names are tokens and that no header continues on a second line; allows at
 * most one Host and one Content-Length, which must be digits; allows Transfer-Encoding only as a
 * single "chunked" and without Content-Length; allows at most one Content-Encoding, of a supported
 * coding. A violation sets request->fault and returns its code: GEMMD_ERR_MALFORMED,
 * GEMMD_ERR_TOO_LARGE for a Content-Length over 64 bits, or GEMMD_ERR_MEDIA_TYPE for the coding. */
enum gemmd_error guard_headers(struct request *request);

#endif
