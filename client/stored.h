/*
 * stored.h - reads the answer to a request that puts or stores a tensor.
 */
#ifndef CLIENT_STORED_H
#define CLIENT_STORED_H

#include "client/client.h"

/* A `conclude` of struct operation: fills in type, shape and entity tag of the tensor, and the
 * effect of the request (enum gemmd_put), in `answer`. GEMMD_ERR_PROTOCOL if neither the request
 * nor the document has the shape. */
enum gemmd_error stored_conclude(struct gemmd_request *request, struct answer *answer,
                                 const char *document, size_t bytes);

/* The operation of a request whose result is stored, or, with `job`, of one that hands in a job
 * whose result is stored. */
const struct operation *stored_operation(bool job);

#endif
