/*
 * answer_buffer.h - the buffer of a result: the caller's buffer, or one that the library allocates.
 */
#ifndef CLIENT_ANSWER_BUFFER_H
#define CLIENT_ANSWER_BUFFER_H

#include "client/client.h"

/* Makes sure that `buffer`, a buffer of the request's sink, has at least `bytes` bytes. If `buffer`
 * is the caller's, only checks the size: GEMMD_ERR_USAGE if the buffer is too small. Otherwise
 * allocates a new buffer, which the request owns, and releases the one of an earlier attempt:
 * GEMMD_ERR_OUT_OF_MEMORY. An error is in request->error too. */
enum gemmd_error answer_buffer_reserve(struct gemmd_request *request, struct answer_buffer *buffer,
                                       uint64_t bytes);

#endif
