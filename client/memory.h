/*
 * memory.h - memory that a client shares with its daemon: a sealed memfd, handed out in blocks.
 *
 * Its size is fixed from the start, as the daemon wants it. Blocks begin at multiples of 64 bytes.
 * A block that the daemon may still write to when it is given back is lost: nobody gets it again,
 * and once too much is, the client goes on with a new memory. One thread at a time.
 */
#ifndef CLIENT_MEMORY_H
#define CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory;

/* NULL: the system gives none. `number` tells it from others of its client's. */
struct memory *memory_new(uint64_t bytes, uint32_t number);
void memory_free(struct memory *memory); /* NULL is allowed */

uint64_t memory_bytes(const struct memory *memory);
int memory_fd(const struct memory *memory);
uint32_t memory_number(const struct memory *memory);
/* A block, with whatever was in it before; NULL: there is no room. */
void *memory_take(struct memory *memory, uint64_t bytes);
/* Gives a block back by its address; false if it is none of this memory's. */
bool memory_give(struct memory *memory, void *block);
/* The same of one that the daemon may still write to. */
void memory_lose(struct memory *memory, void *block);
/* Whether `bytes` from `at` on lie in the memory, and where. */
bool memory_has(const struct memory *memory, const void *at, uint64_t bytes, uint64_t *offset);
/* Whether so much is lost that a new memory is due. */
bool memory_is_worn(const struct memory *memory);
/* Whether blocks are out that will be given back. */
bool memory_is_in_use(const struct memory *memory);

#endif
