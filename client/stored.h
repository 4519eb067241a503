/*
 * stored.h - what an answer says of a tensor that was put or stored.
 */
#ifndef CLIENT_STORED_H
#define CLIENT_STORED_H

#include "client/client.h"

/* A struct operation's `conclude`: completes `answer` with type, shape, etag and what became of the
 * tensor. GEMMD_ERR_PROTOCOL if neither the request nor the document says the shape. */
enum gemmd_error stored_conclude(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes);

#endif
