#include "server/device/pool.h"

#include <inttypes.h>
#include <stdlib.h>

struct pool {
    struct arena *arena;
    unsigned char *memory; /* borrowed */
};

struct pool *pool_create(void *memory, uint64_t bytes)
{
    struct pool *pool = malloc(sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->memory = memory;
    pool->arena = arena_create(bytes);
    if (pool->arena == NULL) {
        free(pool);
        return NULL;
    }
    return pool;
}

void pool_destroy(struct pool *pool)
{
    if (pool == NULL)
        return;
    arena_destroy(pool->arena);
    free(pool);
}

void *pool_alloc(struct pool *pool, uint64_t bytes, struct fault *fault)
{
    uint64_t offset;
    if (!arena_alloc(pool->arena, bytes, &offset)) {
        fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "out of pinned host memory: %" PRIu64 " bytes needed, %" PRIu64 " free", bytes,
                  pool_capacity_bytes(pool) - pool_used_bytes(pool));
        return NULL;
    }
    return pool->memory + offset;
}

void pool_free(struct pool *pool, void *block)
{
    if (block != NULL)
        arena_free(pool->arena, (uint64_t)((unsigned char *)block - pool->memory));
}

uint64_t pool_capacity_bytes(const struct pool *pool)
{
    return arena_capacity_bytes(pool->arena);
}

uint64_t pool_used_bytes(const struct pool *pool)
{
    return arena_used_bytes(pool->arena);
}
