#include "call_stage.h"

#include <check.h>
#include <stdlib.h>

static enum simulated_event done_at_once(const struct work *work)
{
    (void)work;
    return SIMULATED_DONE;
}

void call_stage_start(struct call_stage *stage, uint64_t memory_bytes)
{
    struct daemon *daemon = &stage->daemon;
    const struct admission_limits limits = {.requests = 10, .bytes = UINT64_MAX, .tenants = 1};
    stage->device = simulated_device_open_copying(2, memory_bytes, done_at_once);
    daemon->device = &stage->device->base;
    daemon->config.max_body_bytes = daemon->config.max_result_bytes = memory_bytes;
    daemon->queue = queue_create(&limits);
    daemon->pinned = aligned_alloc(ARENA_ALIGNMENT, memory_bytes);
    daemon->pool = pool_create(daemon->pinned, memory_bytes);
    daemon->early_copy = early_copy_create(daemon->device, daemon->queue, daemon->pool);
    stage->memory = pool_cache_create(daemon->pool);
    ck_assert(daemon->early_copy != NULL && stage->memory != NULL);
}

void call_stage_assert_all_given_back(struct call_stage *stage)
{
    ck_assert_uint_eq(pool_used_bytes(stage->daemon.pool), 0);
    ck_assert_uint_eq(arena_used_bytes(device_arena(stage->daemon.device)), 0);
    ck_assert_uint_eq(admission_held(queue_admission(stage->daemon.queue)).requests, 0);
}

void call_stage_stop(struct call_stage *stage)
{
    struct daemon *daemon = &stage->daemon;
    call_stage_assert_all_given_back(stage);
    pool_cache_destroy(stage->memory);
    early_copy_destroy(daemon->early_copy);
    pool_destroy(daemon->pool);
    free(daemon->pinned);
    queue_destroy(daemon->queue);
    device_close(daemon->device);
}
