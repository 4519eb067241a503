/*
 * guard.h - refuses requests that a proxy and libmicrohttpd could frame differently (request
 * smuggling). The guard runs before anything else looks at a request, on its I/O thread.
 */
#ifndef SERVER_HTTP_GUARD_H
#define SERVER_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/error.h"

struct request;

/* The request line, as libmicrohttpd gives it to its handler. Borrowed. */
struct request_line {
    const char *url, *method, *version;
};

/* Whether the target of a request line has at least one byte, no space and no control character. To
 * be called before libmicrohttpd decodes the target in place. Pure. */
bool guard_target(const char *target, size_t bytes);

/* Checks the framing of a request, and fills in the fields of `request` that describe its body.
 * Requires that the request line is a method, a target and a version with one space between each,
 * that each line ends with CR LF, holds no other CR and no zero byte and does not continue on the
 * next line, and that header names are tokens. Requires exactly one Host (HTTP/1.0: at most one);
 * allows at most one Content-Length, which must be digits; allows Transfer-Encoding only in
 * HTTP/1.1, as a single "chunked" and without Content-Length; allows at most one Content-Encoding,
 * of a supported coding. A violation sets request->fault and returns its code: GEMMD_ERR_MALFORMED,
 * GEMMD_ERR_TOO_LARGE for a Content-Length over 64 bits, or GEMMD_ERR_MEDIA_TYPE for the coding. */
enum gemmd_error guard_headers(struct request *request, const struct request_line *line);

/* Sets request->fault for a Content-Length that is no number, or one that does not fit in 64 bits,
 * and returns its code. */
enum gemmd_error guard_set_bad_length(struct request *request, bool is_too_large);

#endif
