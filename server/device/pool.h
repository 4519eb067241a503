/*
 * pool.h - the pinned host memory that bodies are received into and results are sent from.
 *
 * One span of memory, pinned once at start, handed out by an arena; nothing is pinned or
 * returned to the system while serving. Thread-safe.
 */
#ifndef SERVER_DEVICE_POOL_H
#define SERVER_DEVICE_POOL_H

#include <stdint.h>

#include "proto/error.h"
#include "server/device/arena.h"

struct pool;

/* A pool over `memory` (borrowed, page-aligned, `bytes` long); NULL if its records don't fit. */
struct pool *pool_create(void *memory, uint64_t bytes);
void pool_destroy(struct pool *pool); /* everything must have been given back */

/* A block of `bytes`, page-aligned, with unspecified content; NULL and
 * GEMMD_ERR_OUT_OF_MEMORY in `fault` (with bytes needed and free) if there is none. */
void *pool_alloc(struct pool *pool, uint64_t bytes, struct fault *fault);
void pool_free(struct pool *pool, void *block); /* NULL is allowed */

uint64_t pool_capacity_bytes(const struct pool *pool);
uint64_t pool_used_bytes(const struct pool *pool);

#endif
