/*
 * lingering.h - keeps reading, for a while, from connections that were refused with their body
 * unread.
 *
 * A socket closed with unread bytes sends a reset, and a client that is still writing may
 * then lose the answer it was sent. So the descriptor is kept open after libmicrohttpd has
 * shut its side down, and what arrives is thrown away, bounded in bytes, time and number.
 */
#ifndef SERVER_NET_LINGERING_H
#define SERVER_NET_LINGERING_H

#include <stdint.h>
#include <uv.h>

struct lingering;

/* Works on the main thread's loop. NULL: out of memory. */
struct lingering *lingering_create(uv_loop_t *loop, uint64_t max_bytes);
/* Closes what is left; the loop must run once more for its handles to close. */
void lingering_destroy(struct lingering *lingering);

/* Takes a duplicate of `fd` (which stays the caller's). Any thread. */
void lingering_add(struct lingering *lingering, int fd);

#endif
