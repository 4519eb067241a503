/*
 * arena.h - hands out ranges of a fixed span of memory, without touching that memory.
 *
 * The same allocator keeps the books of pinned host memory and of device memory, so its
 * own records lie elsewhere: a table with one entry for each ARENA_ALIGNMENT bytes of the span,
 * written only where a range starts (0.4 % of the span at worst). Two-level segregated fit
 * (M. Masmano et al., "TLSF", 2004): allocation and release in constant time, neighbours merged at
 * once, no system call and no growth after creation. Ranges are multiples of ARENA_ALIGNMENT and
 * start at one. Thread-safe (one mutex).
 */
#ifndef SERVER_DEVICE_MEMORY_ARENA_H
#define SERVER_DEVICE_MEMORY_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum { ARENA_ALIGNMENT = 4096 };

struct arena;

/* A new arena over [0, bytes); NULL if memory for its records ran out or bytes is larger than
 * 8 TiB. bytes is rounded down to ARENA_ALIGNMENT. Owned by the caller. */
struct arena *arena_create(uint64_t bytes);
/* Every range must have been freed (asserted in debug builds). NULL is allowed. */
void arena_destroy(struct arena *arena);

/* Takes `bytes` (rounded up; 0 counts as 1). False if there is no range for them: the largest free
 * range is always found unless more than 16 free ranges are within 1/32 of its size. */
bool arena_alloc(struct arena *arena, uint64_t bytes, uint64_t *offset);
/* Gives back a range by the offset it was handed out at. */
void arena_free(struct arena *arena, uint64_t offset);

uint64_t arena_capacity_bytes(const struct arena *arena);
uint64_t arena_used_bytes(const struct arena *arena); /* any thread, no lock */
/* The largest range that is free now; what accounting and tests look at. */
uint64_t arena_largest_free_bytes(struct arena *arena);
/* The largest of the free ranges that there would be at and beside these `count` ranges, which are
 * in use, if they were free: by the offsets they were handed out at, in ascending order. */
uint64_t arena_largest_without(struct arena *arena, const uint64_t offsets[], uint64_t count);

#endif
