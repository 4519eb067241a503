/*
 * new_connections.h - an I/O thread's new connections, until their first bytes have arrived.
 *
 * The size of the first request on a connection decides which thread serves the connection, because
 * all connections of one libmicrohttpd daemon have buffers of one size. Large bodies need large
 * buffers (1 MiB) for fewer, larger reads. Small requests need small buffers, because libmicrohttpd
 * zeroes the whole buffer after each request. A connection that has sent nothing yet has no buffer.
 *
 * Only the I/O thread uses its new connections.
 */
#ifndef SERVER_HTTP_NEW_CONNECTIONS_H
#define SERVER_HTTP_NEW_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct connection;

struct new_connections {
    int epoll_fd; /* readable when one of the connections is readable */
    uint32_t count;
};

/* Returns false if the system gives no descriptor for the epoll instance. */
bool new_connections_open(struct new_connections *new_connections);
void new_connections_close(struct new_connections *new_connections);

/* Watches a connection until its client has sent something. Returns false if the system refuses to
 * watch the connection. */
bool new_connections_add(struct new_connections *new_connections, struct connection *connection);
/* Takes out up to `capacity` connections whose client has sent something or disconnected. Returns
 * the number of connections in `ready`. Does not block. */
int new_connections_collect(struct new_connections *new_connections, struct connection *ready[],
                            int capacity);

/* Whether `head`, which may be incomplete, can be the start of an HTTP request: empty lines, then a
 * method that is followed by a space. Pure. */
bool new_connections_can_be_request(const char *head, uint64_t length);

/* The Content-Length of the request at the start of `head`, which may be incomplete. 0 if `head`
 * has no Content-Length that is a number. The value only chooses the thread; libmicrohttpd and
 * guard.h decide later what the request's length is. Pure. */
uint64_t new_connections_announced_bytes(const char *head, uint64_t length);

#endif
