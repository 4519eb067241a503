/*
 * pinned_pool.h - the pinned host memory into which bodies are received and from which results are
 * sent.
 *
 * The pool is one span of memory, pinned once at start and divided up by an arena. Nothing is
 * pinned or returned to the system while the daemon serves. Each thread allocates blocks through a
 * cache of its own, which keeps small free blocks, so that threads contend for no lock. When the
 * arena has no room, the blocks that all caches keep are returned to the arena first, so that no
 * request is refused for lack of memory that nothing uses.
 */
#ifndef SERVER_DEVICE_MEMORY_PINNED_POOL_H
#define SERVER_DEVICE_MEMORY_PINNED_POOL_H

#include <stdint.h>

#include "proto/error.h"
#include "server/device/memory/arena.h"

struct pool;
struct pool_cache;

/* Creates a pool over `memory` (borrowed, page-aligned, `bytes` long). NULL: there is no memory for
 * the pool's records. */
struct pool *pool_create(void *memory, uint64_t bytes);
/* Every block must have been freed, and every cache destroyed. NULL is allowed. */
void pool_destroy(struct pool *pool);

/* Creates a cache, which one thread uses at a time. NULL: out of memory. */
struct pool_cache *pool_cache_create(struct pool *pool);
/* NULL is allowed. */
void pool_cache_destroy(struct pool_cache *cache);

/* Allocates a block of `bytes`, page-aligned, whose content is unspecified. NULL: there is no such
 * block; `fault` is GEMMD_ERR_OUT_OF_MEMORY with the numbers of bytes needed and free. */
void *pool_alloc(struct pool_cache *cache, uint64_t bytes, struct fault *fault);
/* Frees a block, which may have been allocated through another cache; `bytes` is the size that
 * pool_alloc was given. NULL is allowed. */
void pool_free(struct pool_cache *cache, void *block, uint64_t bytes);

/* Any thread. Blocks that caches keep do not count as used. */
uint64_t pool_capacity_bytes(const struct pool *pool);
uint64_t pool_used_bytes(struct pool *pool);

#endif
