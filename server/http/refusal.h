/*
 * refusal.h - refuses a connection that does not begin with an HTTP request, or with a TLS
 * handshake where the daemon speaks TLS, before libmicrohttpd is given the connection.
 * libmicrohttpd would close such a connection without an answer, or wait.
 *
 * A request that libmicrohttpd is given and cannot parse gets libmicrohttpd's own answer, a short
 * page with status 400 or another fitting one, and its connection is closed.
 */
#ifndef SERVER_HTTP_REFUSAL_H
#define SERVER_HTTP_REFUSAL_H

struct connection;

/* Answers a new connection whose first byte is `first` with 400, and writes the refusal to the
 * access log and the metrics. The bytes that the client has sent stay unread. The caller closes the
 * connection. On the connection's I/O thread. */
void refusal_not_http(struct connection *connection, char first);

#endif
