/*
 * request_body.h - receives the body of a request: decompresses it, hands it to the endpoint, or
 * drops it if the request is refused.
 *
 * request_refuse and request_receive (request.h), which begin a body, are in request_body.c too.
 * All functions run on the request's I/O thread.
 */
#ifndef SERVER_HTTP_REQUEST_BODY_H
#define SERVER_HTTP_REQUEST_BODY_H

#include <stdbool.h>
#include <stddef.h>

struct request;

/* Takes more bytes of the body. Returns false if the connection must be closed. */
bool request_body_take(struct request *request, const char *bytes, size_t length);

/* Ends the body: submits the request, or answers it if it is refused. Returns false if
 * connection_check has already ended the connection. */
bool request_body_end(struct request *request);

#endif
