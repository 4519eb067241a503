/*
 * sent_block.h - a block of the pool of pinned memory that an answer is sent from. The block goes
 * back to the pool when the answer was sent, and the request's reservation goes with it.
 *
 * All functions run on the request's I/O thread. The block must come from that thread's cache of
 * the pool.
 */
#ifndef SERVER_API_SENT_BLOCK_H
#define SERVER_API_SENT_BLOCK_H

#include <stdint.h>

#include "server/device/memory/pool.h"
#include "server/scheduler/admission.h"

struct sent_block;

/* Takes over a block of `bytes` bytes, and the reservation for the answer. Returns NULL if memory
 * ran out; the caller then still owns both. */
struct sent_block *sent_block_create(struct pool_cache *memory, void *block, uint64_t bytes,
                                     struct admission_place *place);
/* Gives the block and the reservation back, and frees the struct sent_block that `sent_block`
 * points to. The parameter is a void pointer, so that the function can be the `sent` of a struct
 * payload. */
void sent_block_end(void *sent_block);

#endif
