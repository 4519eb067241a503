#include <stdatomic.h>

#include "server/observe/metrics_families.h"

uint64_t metrics_shards_sum(const struct metrics *metrics, size_t offset)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const char *shard = (const char *)&metrics->shards[i];
        sum += atomic_load_explicit((const _Atomic uint64_t *)(const void *)(shard + offset),
                                    memory_order_relaxed);
    }
    return sum;
}
