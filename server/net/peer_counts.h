/*
 * peer_counts.h - how many connections each network address has open.
 *
 * libmicrohttpd counts per daemon, and there is one for each I/O thread, so the acceptor
 * counts for all of them. Unix sockets have no address and are never limited. Thread-safe.
 */
#ifndef SERVER_NET_PEER_COUNTS_H
#define SERVER_NET_PEER_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct peer_counts;

/* `limit` connections an address (0: no limit), at most `capacity` addresses at once (the
 * connection limit is enough). NULL: out of memory. */
struct peer_counts *peer_counts_create(uint32_t limit, uint32_t capacity);
void peer_counts_destroy(struct peer_counts *counts);

/* Counts a new connection from `address`; false if that address has as many as it may. */
bool peer_counts_add(struct peer_counts *counts, const struct sockaddr *address);
/* Gives back what peer_counts_add counted. */
void peer_counts_remove(struct peer_counts *counts, const struct sockaddr *address);

#endif
