/*
 * respond.h - answers, as libmicrohttpd takes them. On the request's I/O thread, once a request.
 */
#ifndef SERVER_HTTP_RESPOND_H
#define SERVER_HTTP_RESPOND_H

#include <microhttpd.h>
#include <stdint.h>

#include "proto/error.h"

struct request;

/* A problem+json document. `fault` may be request->fault. */
void respond_fault(struct request *request, const struct fault *fault);
/* `text` was allocated with malloc and is taken over. */
void respond_text(struct request *request, int status, const char *content_type, char *text,
                  uint64_t length);
/* `text` is static. */
void respond_static(struct request *request, int status, const char *content_type, const char *text,
                    uint64_t length);
/* Sends a prepared response (taken over), after adding what every answer carries. */
void respond(struct request *request, int status, struct MHD_Response *response, uint64_t length);

#endif
