/*
 * peer_user.h - the user of this host who is the peer of a connection.
 *
 * The kernel knows the user of a Unix socket's peer. It knows the user of a TCP connection's peer
 * if the peer is on this host and in the same network namespace: the owner of the socket there. Any
 * thread.
 */
#ifndef SERVER_NET_PEER_USER_H
#define SERVER_NET_PEER_USER_H

#include <stdbool.h>
#include <sys/types.h>

/* False: the peer is on another host, or its user is not known. For a TCP connection whose peer the
 * kernel cannot be asked for directly (sock_diag(7)), /proc/net/tcp is read, which takes longer the
 * more connections the host has. */
bool peer_user(int fd, uid_t *user);

#endif
