/*
 * sent_block.h - a block of the pool that an answer is sent from. On the request's I/O thread,
 * whose cache of the pool it came from.
 */
#ifndef SERVER_API_SENT_BLOCK_H
#define SERVER_API_SENT_BLOCK_H

#include <stdint.h>

#include "server/device/memory/pool.h"

struct sent_block;

/* Takes over the block. NULL: out of memory, and the block stays the caller's. */
struct sent_block *sent_block_create(struct pool_cache *memory, void *block, uint64_t bytes);
/* The last byte has gone, or none will: gives the block back. Takes a struct sent_block, as
 * libmicrohttpd's free callbacks and a payload's `sent` do. */
void sent_block_end(void *sent_block);

#endif
