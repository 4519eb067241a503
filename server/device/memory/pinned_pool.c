#include "server/device/memory/pinned_pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "proto/size.h"
#include "proto/size_text.h"

/* A cache keeps free blocks of 1 ... CLASSES units of the arena, in one list for each size. */
enum { CLASSES = 16, CACHE_UNITS_MAX = 512 /* 2 MiB */ };

/* A free block that a cache keeps. The block's own memory holds the link: pinned memory is host
 * memory too. */
struct kept {
    struct kept *next;
};

struct pool_cache {
    struct pool *pool;
    struct pool_cache *next; /* in the pool's list */
    pthread_mutex_t lock;    /* other threads take it only when memory is short, and for metrics */
    struct kept *kept[CLASSES];
    uint64_t units;
};

struct pool {
    struct arena *arena;
    unsigned char *memory; /* borrowed */
    pthread_mutex_t lock;
    struct pool_cache *caches; /* under lock */
};

struct pool *pool_create(void *memory, uint64_t bytes)
{
    struct pool *pool = malloc(sizeof *pool);
    if (pool == NULL)
        return NULL;
    *pool = (struct pool){.memory = memory, .arena = arena_create(bytes)};
    if (pool->arena == NULL || pthread_mutex_init(&pool->lock, NULL) != 0) {
        arena_destroy(pool->arena);
        free(pool);
        return NULL;
    }
    return pool;
}

void pool_destroy(struct pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_destroy(&pool->lock);
    arena_destroy(pool->arena);
    free(pool);
}

struct pool_cache *pool_cache_create(struct pool *pool)
{
    struct pool_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    if (pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache);
        return NULL;
    }
    cache->pool = pool;
    pthread_mutex_lock(&pool->lock);
    cache->next = pool->caches;
    pool->caches = cache;
    pthread_mutex_unlock(&pool->lock);
    return cache;
}

static void return_to_arena(struct pool *pool, const void *block)
{
    arena_free(pool->arena, (uint64_t)((const unsigned char *)block - pool->memory));
}

static void cache_empty(struct pool_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    for (int i = 0; i < CLASSES; i++) {
        while (cache->kept[i] != NULL) {
            struct kept *kept = cache->kept[i];
            cache->kept[i] = kept->next;
            return_to_arena(cache->pool, kept);
        }
    }
    cache->units = 0;
    pthread_mutex_unlock(&cache->lock);
}

void pool_cache_destroy(struct pool_cache *cache)
{
    if (cache == NULL)
        return;
    struct pool *pool = cache->pool;
    pthread_mutex_lock(&pool->lock);
    struct pool_cache **link = &pool->caches;
    while (*link != cache)
        link = &(*link)->next;
    *link = cache->next;
    pthread_mutex_unlock(&pool->lock);
    cache_empty(cache);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static uint64_t units_of(uint64_t bytes)
{
    return size_blocks(bytes > 0 ? bytes : 1, ARENA_ALIGNMENT);
}

static void *take_kept(struct pool_cache *cache, uint64_t units)
{
    if (units > CLASSES)
        return NULL;
    pthread_mutex_lock(&cache->lock);
    struct kept *kept = cache->kept[units - 1];
    if (kept != NULL) {
        cache->kept[units - 1] = kept->next;
        cache->units -= units;
    }
    pthread_mutex_unlock(&cache->lock);
    return kept;
}

static bool cache_keep(struct pool_cache *cache, void *block, uint64_t units)
{
    if (units > CLASSES)
        return false;
    pthread_mutex_lock(&cache->lock);
    bool room = cache->units + units <= CACHE_UNITS_MAX;
    if (room) {
        struct kept *kept = block;
        kept->next = cache->kept[units - 1];
        cache->kept[units - 1] = kept;
        cache->units += units;
    }
    pthread_mutex_unlock(&cache->lock);
    return room;
}

static bool alloc_from_arena(struct pool *pool, uint64_t bytes, uint64_t *offset)
{
    if (arena_alloc(pool->arena, bytes, offset))
        return true;
    pthread_mutex_lock(&pool->lock);
    for (struct pool_cache *cache = pool->caches; cache != NULL; cache = cache->next)
        cache_empty(cache);
    pthread_mutex_unlock(&pool->lock);
    return arena_alloc(pool->arena, bytes, offset);
}

void *pool_alloc(struct pool_cache *cache, uint64_t bytes, struct fault *fault)
{
    struct pool *pool = cache->pool;
    uint64_t offset;
    void *block = take_kept(cache, units_of(bytes));
    if (block != NULL)
        return block;
    if (!alloc_from_arena(pool, bytes, &offset)) {
        fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "out of pinned host memory: %s needed, %s free (--pinned-bytes)",
                  size_text(bytes).text,
                  size_text(pool_capacity_bytes(pool) - pool_used_bytes(pool)).text);
        return NULL;
    }
    return pool->memory + offset;
}

void pool_free(struct pool_cache *cache, void *block, uint64_t bytes)
{
    if (block != NULL && !cache_keep(cache, block, units_of(bytes)))
        return_to_arena(cache->pool, block);
}

uint64_t pool_capacity_bytes(const struct pool *pool)
{
    return arena_capacity_bytes(pool->arena);
}

uint64_t pool_used_bytes(struct pool *pool)
{
    uint64_t kept = 0;
    pthread_mutex_lock(&pool->lock);
    uint64_t used = arena_used_bytes(pool->arena);
    for (struct pool_cache *cache = pool->caches; cache != NULL; cache = cache->next) {
        pthread_mutex_lock(&cache->lock);
        kept += cache->units * ARENA_ALIGNMENT;
        pthread_mutex_unlock(&cache->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return used > kept ? used - kept : 0; /* blocks may move while they are counted */
}
