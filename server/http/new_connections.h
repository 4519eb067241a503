/*
 * new_connections.h - an I/O thread's new connections, until their first bytes can be looked at.
 *
 * How large its first request is decides where a connection goes: libmicrohttpd's buffer is one
 * size a daemon, and what large bodies want (1 MiB: fewer, larger reads) costs small requests
 * dearly (all of it is zeroed after each). A connection that has sent nothing yet has no buffer at
 * all. Only the I/O thread touches this.
 */
#ifndef SERVER_HTTP_NEW_CONNECTIONS_H
#define SERVER_HTTP_NEW_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct connection;

struct new_connections {
    int epoll_fd; /* readable when some connection is */
    uint32_t count;
};

/* False if the system has no descriptor for it. */
bool new_connections_open(struct new_connections *arrivals);
void new_connections_close(struct new_connections *arrivals);

/* Watches a connection until it has sent something. False if the system can't. */
bool new_connections_add(struct new_connections *arrivals, struct connection *connection);
/* Takes out connections that have sent something or ended; returns how many are in `ready`. */
int new_connections_collect(struct new_connections *arrivals, struct connection *ready[],
                            int capacity);

/* Whether `head` can be the beginning of a request, as far as it is there: empty lines, and a
 * method with a space behind it. Pure. */
bool new_connections_can_be_request(const char *head, uint64_t length);

/* The Content-Length of the request that `head` begins with, as far as it is there; 0 if it says
 * none that is a number. A guess: libmicrohttpd and the guard read it for good. Pure. */
uint64_t new_connections_announced_bytes(const char *head, uint64_t length);

#endif
