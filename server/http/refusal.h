/*
 * refusal.h - what libmicrohttpd refuses by itself, said in a problem document.
 *
 * What it cannot parse (a request line, a header, a length, a chunk) it answers with a page of its
 * own and ends the connection. No callback comes between, but for a line in its log, written before
 * the page is sent. So the answer is written to the socket there and then, and the writing side
 * shut behind it: the page finds no way out. Whose request it is, last_socket says.
 *
 * The lines meant are "Error processing request (HTTP response code is %u ...", in libmicrohttpd
 * 0.9.75 and 1.0.1 alike. Should another version word it otherwise, its page is sent as before.
 *
 * And what it does not refuse but close without a word, or wait for, is refused before it is asked.
 */
#ifndef SERVER_HTTP_REFUSAL_H
#define SERVER_HTTP_REFUSAL_H

#include <stdarg.h>

struct connection;

/* MHD_OPTION_EXTERNAL_LOGGER's; `cls` is the io_thread. Other lines are dropped. */
void refusal_log(void *cls, const char *format, va_list arguments);

/* A new connection whose first byte is `first` does not begin with a request: answers that. The
 * caller closes it, with what it has sent unread. */
void refusal_not_http(struct connection *connection, char first);

#endif
