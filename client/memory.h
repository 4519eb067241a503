/*
 * memory.h - a memory that a client shares with its daemon: a sealed memfd, allocated in blocks.
 *
 * The size of a memory is fixed when it is made, since the daemon takes sealed memfds only. Blocks
 * begin at multiples of 64 bytes. If the daemon may still write to a block when the block is given
 * back, the block is lost: it is never handed out again. A memory of which too much is lost is
 * worn, and the client makes a new one. One thread at a time.
 */
#ifndef CLIENT_MEMORY_H
#define CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory;

/* Makes a memory of `bytes`. `number` tells the client's memories apart. NULL: the system has no
 * memory or no descriptor. */
struct memory *memory_new(uint64_t bytes, uint32_t number);
void memory_free(struct memory *memory); /* NULL is allowed */

uint64_t memory_bytes(const struct memory *memory);
int memory_fd(const struct memory *memory);
uint32_t memory_number(const struct memory *memory);
/* Returns a block of `bytes`, which is not cleared; NULL: there is no room. */
void *memory_take(struct memory *memory, uint64_t bytes);
/* Gives a block back by its address; false if the block is not of this memory. */
bool memory_give(struct memory *memory, void *block);
/* Gives a block back to which the daemon may still write: the block is lost. */
void memory_lose(struct memory *memory, void *block);
/* Whether the `bytes` from `at` on lie in the memory; `*offset` becomes their offset in it. */
bool memory_has(const struct memory *memory, const void *at, uint64_t bytes, uint64_t *offset);
/* Whether so much of the memory is lost that the client should make a new one. */
bool memory_is_worn(const struct memory *memory);
/* Whether there are blocks that have been handed out and will be given back. */
bool memory_is_in_use(const struct memory *memory);

#endif
