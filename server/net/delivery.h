/*
 * delivery.h - how much of what was written to a connection's socket the peer has received. Any
 * thread; the functions only ask the system.
 */
#ifndef SERVER_NET_DELIVERY_H
#define SERVER_NET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes that the peer of a TCP socket has acknowledged since the connection was opened. Returns
 * false if the socket is not of TCP. */
bool delivery_acknowledged(int fd, uint64_t *bytes);
/* The bytes that were written to the socket and that the peer has not received; 0 if the system
 * does not tell. A Unix socket counts the system's own overhead too. */
uint64_t delivery_outstanding(int fd);
/* Whether the peer of a Unix socket has closed it after it had read all that was written. (The
 * system reports ECONNRESET if the peer left bytes unread.) False for other sockets, and while the
 * peer has the socket open. */
bool delivery_was_read(int fd);

#endif
