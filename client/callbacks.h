/*
 * callbacks.h - what libcurl calls during an attempt: it reads the body, takes the answer's header
 * lines and payload. `user` is the struct transfer.
 */
#ifndef CLIENT_CALLBACKS_H
#define CLIENT_CALLBACKS_H

#include "client/transfer.h"

size_t callback_read(char *out, size_t size, size_t count, void *user);
int callback_seek(void *user, curl_off_t offset, int origin);
size_t callback_header(char *line, size_t size, size_t count, void *user);
size_t callback_write(char *data, size_t size, size_t count, void *user);

/* Asks the operation's accept, once, whether the answer is what was asked for. */
enum gemmd_error callback_accept(struct transfer *transfer);
/* Makes room for `more` bytes of a text and the zero at its end. */
enum gemmd_error callback_grow_text(struct gemmd_request *request, uint64_t more);

#endif
