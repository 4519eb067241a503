/*
 * respond.h - the answer to a request, given once, on the request's I/O thread.
 *
 * Each function adds the fields that every answer carries (X-Request-Id, and Connection: close
 * while the daemon closes). If memory runs out, the client gets 503, and if there is no memory for
 * that either, its connection is closed.
 */
#ifndef SERVER_HTTP_RESPOND_H
#define SERVER_HTTP_RESPOND_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"
#include "server/base/headers.h"
#include "server/http/payload.h"

struct request;

/* Sends a payload, which is taken over: payload->sent is called after the last byte, or when none
 * will be sent. `headers` may be NULL. False if memory ran out; the request is answered then too.
 */
bool respond(struct request *request, int status, const struct headers *headers,
             const struct payload *payload);
/* Sends no body. Content-Length is `length`, which for an answer to HEAD and for 304 is the length
 * of the body that GET would get, else 0. */
void respond_empty(struct request *request, int status, const struct headers *headers,
                   uint64_t length);
/* Sends a fault as a problem+json document. `fault` may be &request->fault. */
void respond_fault(struct request *request, const struct fault *fault);
/* Sets request->fault to GEMMD_ERR_OUT_OF_MEMORY and sends it. */
void respond_out_of_memory(struct request *request);

/* Sends a text of type `content_type`. `text` was allocated with malloc and is taken over; NULL
 * says that memory ran out. */
void respond_text(struct request *request, int status, const char *content_type, char *text);
/* Sends `length` bytes of static text. */
void respond_static(struct request *request, int status, const char *content_type, const char *text,
                    uint64_t length);
/* Sends a copy of `length` bytes of text. */
void respond_copy(struct request *request, int status, const struct headers *headers,
                  const char *text, uint64_t length);

#endif
