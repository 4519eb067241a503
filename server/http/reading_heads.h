/*
 * reading_heads.h - the requests of an I/O thread whose headers are being read. The list serves to
 * refuse requests that libmicrohttpd 0.9 would answer with a malformed answer.
 *
 * libmicrohttpd 0.9 itself refuses a request whose Content-Length is not a number, or whose cookies
 * do not fit in the connection's buffer. It finds both faults when the headers are complete, before
 * it calls request_handle. It prepares an answer, but then goes on with the request as if it had
 * not answered, and so writes the head of the answer a second time in front of the answer's body.
 *
 * The daemon therefore answers such a request first, and shuts the socket down before libmicrohttpd
 * writes to it. The only callback that runs between the two steps is the one for libmicrohttpd's
 * messages. That callback does not name the connection. But only one connection at a time is
 * between the two steps, and MHD_get_connection_info tells which: the one that has a size of
 * headers and no status yet. libmicrohttpd 1.0 answers correctly, and its requests are not listed.
 *
 * All functions run on the I/O thread.
 */
#ifndef SERVER_HTTP_READING_HEADS_H
#define SERVER_HTTP_READING_HEADS_H

#include <stdarg.h>

struct request;

/* Zeroed: no requests. */
struct reading_heads {
    struct request *newest;
};

void reading_heads_add(struct reading_heads *heads, struct request *request);
/* Removes a request whose headers have been read, or whose connection has ended. Does nothing for a
 * request that was removed before. */
void reading_heads_remove(struct reading_heads *heads, struct request *request);
/* The callback for libmicrohttpd's messages (MHD_LogCallback). `thread` is the I/O thread. Nothing
 * is logged. */
void reading_heads_on_message(void *thread, const char *format, va_list arguments);

#endif
