/*
 * reading_heads.h - the requests of an I/O thread whose headers are being read, and the refusal of
 * those whose answer by libmicrohttpd would be malformed.
 *
 * libmicrohttpd 0.9 itself refuses a request whose Content-Length is not a number, or whose cookies
 * do not fit in the connection's buffer. It finds both faults when the headers are complete and
 * before it calls request_handle, prepares its answer, and then goes on with the request as if
 * there were none, so that it writes the head of the answer a second time in front of the body. No
 * callback runs in between but that for libmicrohttpd's messages. The callback does not name the
 * connection, but only one connection at a time is in the middle of this step, and libmicrohttpd
 * says which one when it is asked for the size of the headers. So the daemon answers such a request
 * when it sees the message, and shuts the socket down before libmicrohttpd writes to it.
 * libmicrohttpd 1.0 answers correctly, and is not watched.
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
