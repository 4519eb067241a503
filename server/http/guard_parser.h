/*
 * guard_parser.h - finds out, at the start, how libmicrohttpd parses requests.
 *
 * libmicrohttpd 0.9 accepts lines and chunks that RFC 9112 forbids, so the guard (guard.h) checks
 * the lines of each head where libmicrohttpd has left them in its buffer. Where libmicrohttpd
 * leaves lines is not part of its interface. At the start the daemon therefore gives libmicrohttpd
 * a request of its own, and serves only if the lines are left where the guard expects them.
 * libmicrohttpd 1.0 and later refuse such requests themselves, and the guard does not look at their
 * buffers.
 */
#ifndef SERVER_HTTP_GUARD_PARSER_H
#define SERVER_HTTP_GUARD_PARSER_H

#include <stdbool.h>

#include "proto/error.h"

/* Sets `*is_lenient` to whether the guard has to check the lines of each head. Main thread.
 * GEMMD_ERR_UNSUPPORTED: the version of libmicrohttpd is not known to be safe, or the version is
 * lenient and leaves the head of a request in another way. GEMMD_ERR_INTERNAL: libmicrohttpd could
 * not be tried. */
enum gemmd_error guard_parser_find(bool *is_lenient, struct fault *fault);

#endif
