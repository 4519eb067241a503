/*
 * lingering.h - reads from refused connections for a while, after an answer was sent without
 * reading the whole body.
 *
 * Closing a socket with unread bytes makes the system send a reset, on which a client that is still
 * sending may lose the answer. The daemon therefore keeps the descriptor open after libmicrohttpd
 * has shut down its side of the connection, and discards the bytes that arrive. The bytes, the time
 * and the number of such connections are limited, and so is the rate at which the bytes of all of
 * them are discarded: at 400 MiB a second this takes about a tenth of a core. Clients that send
 * faster wait.
 */
#ifndef SERVER_NET_LINGERING_H
#define SERVER_NET_LINGERING_H

#include <stdint.h>
#include <uv.h>

struct lingering;

/* Reads on the main thread's loop. A connection is closed after `max_bytes`. NULL: out of memory.
 */
struct lingering *lingering_create(uv_loop_t *loop, uint64_t max_bytes);
/* Closes all remaining connections. The loop must run once more, to close its handles. */
void lingering_destroy(struct lingering *lingering);

/* Adds a duplicate of `fd`, which stays the caller's. Any thread. */
void lingering_add(struct lingering *lingering, int fd);

#endif
