/*
 * arena.h - an allocator of ranges of a fixed span of memory, which never touches that memory.
 *
 * The same allocator serves pinned host memory and device memory. Its own records are therefore
 * kept elsewhere: a table with one entry for every ARENA_ALIGNMENT bytes of the span, written only
 * where a range starts (0.4 % of the span at worst). The algorithm is two-level segregated fit (M.
 * Masmano et al., "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", 2004): allocating
 * and freeing take constant time, free neighbours are merged at once, and an arena makes no system
 * call and does not grow after it is created. Ranges start at multiples of ARENA_ALIGNMENT and are
 * multiples of it long. Thread-safe (one mutex).
 */
#ifndef SERVER_DEVICE_MEMORY_ARENA_H
#define SERVER_DEVICE_MEMORY_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum { ARENA_ALIGNMENT = 4096 };

struct arena;

/* Creates an arena over the offsets 0 ... bytes - 1, owned by the caller. `bytes` is rounded down
 * to a multiple of ARENA_ALIGNMENT. NULL: there is no memory for the records, or `bytes` is larger
 * than 8 TiB. */
struct arena *arena_create(uint64_t bytes);
/* Every range must have been freed (asserted in debug builds). NULL is allowed. */
void arena_destroy(struct arena *arena);

/* Allocates a range of `bytes`, rounded up (0 bytes count as 1). False: there is no free range for
 * them. The largest free range is always found, unless more than 16 free ranges are within 1/32 of
 * its size. */
bool arena_alloc(struct arena *arena, uint64_t bytes, uint64_t *offset);
/* Frees the range that was allocated at `offset`. */
void arena_free(struct arena *arena, uint64_t offset);

uint64_t arena_capacity_bytes(const struct arena *arena);
/* Bytes of all allocated ranges. Any thread, without a lock. */
uint64_t arena_used_bytes(const struct arena *arena);
/* Bytes of the largest free range that there would be at or beside the given allocated ranges, if
 * they were freed. `offsets` are the `count` offsets of the ranges, in ascending order. */
uint64_t arena_largest_without(struct arena *arena, const uint64_t offsets[], uint64_t count);

#endif
