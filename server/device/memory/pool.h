/*
 * pool.h - the pinned host memory that bodies are received into and results are sent from.
 *
 * One span of memory, pinned once at start, handed out by an arena; nothing is pinned or
 * returned to the system while serving. Blocks go through a cache of the thread that uses them,
 * which keeps small ones, so that threads share no lock while they come and go. When the arena has
 * no room, what all caches keep is given back to it first: nothing is refused for memory that
 * nobody uses.
 */
#ifndef SERVER_DEVICE_MEMORY_POOL_H
#define SERVER_DEVICE_MEMORY_POOL_H

#include <stdint.h>

#include "proto/error.h"
#include "server/device/memory/arena.h"

struct pool;
struct pool_cache;

/* A pool over `memory` (borrowed, page-aligned, `bytes` long); NULL if its records don't fit. */
struct pool *pool_create(void *memory, uint64_t bytes);
/* Everything must have been given back, and all caches be destroyed. NULL is allowed. */
void pool_destroy(struct pool *pool);

/* A cache for one thread at a time. NULL: out of memory. */
struct pool_cache *pool_cache_create(struct pool *pool);
void pool_cache_destroy(struct pool_cache *cache); /* NULL is allowed */

/* A block of `bytes`, page-aligned, with unspecified content; NULL and
 * GEMMD_ERR_OUT_OF_MEMORY in `fault` (with bytes needed and free) if there is none. */
void *pool_alloc(struct pool_cache *cache, uint64_t bytes, struct fault *fault);
/* Gives back a block of the pool, whichever cache it came through; `bytes` as it was asked for.
 * NULL is allowed. */
void pool_free(struct pool_cache *cache, void *block, uint64_t bytes);

/* Any thread. What caches keep is not in use. */
uint64_t pool_capacity_bytes(const struct pool *pool);
uint64_t pool_used_bytes(struct pool *pool);

#endif
