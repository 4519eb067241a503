/*
 * callbacks.h - the functions that libcurl calls during an attempt: to read the request's body, and
 * to hand over the answer's header lines and payload. `user` is the struct transfer.
 */
#ifndef CLIENT_CALLBACKS_H
#define CLIENT_CALLBACKS_H

#include "client/transfer.h"

size_t callback_read(char *out, size_t size, size_t count, void *user);
int callback_seek(void *user, curl_off_t offset, int origin);
size_t callback_header(char *line, size_t size, size_t count, void *user);
size_t callback_write(char *data, size_t size, size_t count, void *user);

/* Calls the operation's `accept`, once an attempt, to check the header of an answer that is no
 * failure. */
enum gemmd_error callback_accept(struct transfer *transfer);
/* Grows the sink of a text so that `more` bytes and a terminating NUL fit. */
enum gemmd_error callback_grow_text(struct gemmd_request *request, uint64_t more);

#endif
