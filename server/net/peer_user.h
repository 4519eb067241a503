/*
 * peer_user.h - which user of this host is at the other end of a connection.
 *
 * The kernel knows it of a Unix socket, and of a TCP connection whose other end is on this host, in
 * the same network namespace: whose process made the socket there. Any thread.
 */
#ifndef SERVER_NET_PEER_USER_H
#define SERVER_NET_PEER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* False: the peer is elsewhere, or nobody knows. Of a TCP connection whose other end cannot be
 * asked for by itself it reads /proc/net/tcp, which takes the longer the more connections the host
 * has. */
bool peer_user(int fd, uid_t *user);

#endif
