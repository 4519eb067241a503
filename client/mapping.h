/*
 * mapping.h - a mapping: one piece of memory that a client shares with its daemon. A mapping is a
 * sealed memfd, which is allocated in blocks.
 *
 * The size of a mapping is fixed when the mapping is made, since the daemon accepts only sealed
 * memfds. Blocks begin at multiples of 64 bytes. A block is lost if the daemon may still write to
 * the block when the caller gives the block back: a lost block is never handed out again. A mapping
 * of which more than half is lost is worn, and the client replaces the mapping. One thread at a
 * time.
 */
#ifndef CLIENT_MAPPING_H
#define CLIENT_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

struct mapping;

/* Returns a new mapping of `bytes` bytes, which the caller releases with mapping_free. `number`
 * tells the client's mappings apart. NULL: the system has no memory or no descriptor. */
struct mapping *mapping_new(uint64_t bytes, uint32_t number);
void mapping_free(struct mapping *mapping); /* `mapping` may be NULL */

uint64_t mapping_bytes(const struct mapping *mapping);
int mapping_fd(const struct mapping *mapping);
uint32_t mapping_number(const struct mapping *mapping);
/* Returns a block of `bytes` bytes, which are not cleared; NULL: no gap is large enough. */
void *mapping_take(struct mapping *mapping, uint64_t bytes);
/* Gives a block back. False if `block` is not the start of a block of this mapping. */
bool mapping_give(struct mapping *mapping, void *block);
/* Gives back a block to which the daemon may still write. The block is lost. */
void mapping_lose(struct mapping *mapping, void *block);
/* Returns whether the `bytes` bytes at `at` lie in the mapping. If so, sets `*offset` to their
 * offset from the mapping's start. */
bool mapping_has(const struct mapping *mapping, const void *at, uint64_t bytes, uint64_t *offset);
/* In the child of a fork: makes the memory private to the calling process, so that the process
 * writes nothing to the memory of the parent and of the daemon. */
void mapping_make_private(struct mapping *mapping);
/* Returns whether more than half of the mapping is lost. */
bool mapping_is_worn(const struct mapping *mapping);
/* Returns whether a block is in use: handed out, and neither given back nor lost. */
bool mapping_is_in_use(const struct mapping *mapping);

#endif
