/*
 * peer_counts.h - the number of open connections of each network address.
 *
 * libmicrohttpd counts the connections of each of its daemons separately, and every I/O thread has
 * such a daemon. The limit for an address is therefore kept here, for all threads together. Unix
 * sockets have no address and no limit. A request that came through a trusted proxy counts as a
 * connection of its client (forwarded.h). Thread-safe.
 */
#ifndef SERVER_NET_PEER_COUNTS_H
#define SERVER_NET_PEER_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct networks;
struct peer_counts;

/* Counts for at most `limit` connections of an address (0: no limit), and at most `capacity`
 * addresses at once, for which the limit of all connections suffices. Connections from addresses
 * of `exempt`, which is borrowed, are not counted. NULL: out of memory. */
struct peer_counts *peer_counts_create(uint32_t limit, uint32_t capacity,
                                       const struct networks *exempt);
void peer_counts_destroy(struct peer_counts *counts);

/* Counts a new connection from `address`. False: the address has `limit` connections already. */
bool peer_counts_add(struct peer_counts *counts, const struct sockaddr *address);
/* Ends a connection that peer_counts_add has counted. */
void peer_counts_remove(struct peer_counts *counts, const struct sockaddr *address);

#endif
