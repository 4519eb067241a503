/*
 * guard.h - refuses what a front proxy and libmicrohttpd could read differently (request
 * smuggling), before anything else is looked at.
 */
#ifndef SERVER_HTTP_GUARD_H
#define SERVER_HTTP_GUARD_H

#include "proto/error.h"

struct request;

/* Names that are tokens and lines that are whole; at most one Host and one Content-Length, digits
 * only; Transfer-Encoding only as a single "chunked" and never with Content-Length; at most one
 * Content-Encoding that is known. Fills in what request says about its body; on refusal
 * request->fault. */
enum gemmd_error guard_headers(struct request *request);

#endif
