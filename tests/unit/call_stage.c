#include "call_stage.h"

#include <check.h>
#include <stdlib.h>

#include "tests/unit/admitted_queue.h"

static enum simulated_event done_at_once(const struct work *work)
{
    (void)work;
    return SIMULATED_DONE;
}

void call_stage_start(struct call_stage *stage, uint64_t memory_bytes)
{
    struct services *services = &stage->services;
    const struct admission_limits limits = {.requests = 10, .bytes = UINT64_MAX, .tenants = 1};
    stage->device = simulated_device_open_copying(2, memory_bytes, done_at_once);
    services->executors.count = 1;
    services->executors.list[0].device = &stage->device->base;
    stage->config.max_body_bytes = stage->config.max_result_bytes = memory_bytes;
    services->executors.list[0].queue = queue_with_limits(&limits);
    services->admission = queue_admission(services->executors.list[0].queue);
    stage->pinned = aligned_alloc(ARENA_ALIGNMENT, memory_bytes);
    services->pool = pool_create(stage->pinned, memory_bytes);
    services->executors.list[0].early_copy = early_copy_create(
        services->executors.list[0].device, services->executors.list[0].queue, services->pool);
    stage->memory = pool_cache_create(services->pool);
    ck_assert_ptr_nonnull(services->executors.list[0].early_copy);
    ck_assert_ptr_nonnull(stage->memory);
}

void call_stage_assert_all_given_back(struct call_stage *stage)
{
    ck_assert_uint_eq(pool_used_bytes(stage->services.pool), 0);
    ck_assert_uint_eq(arena_used_bytes(device_arena(stage->services.executors.list[0].device)), 0);
    ck_assert_uint_eq(
        admission_held(queue_admission(stage->services.executors.list[0].queue)).requests, 0);
}

void call_stage_stop(struct call_stage *stage)
{
    struct services *services = &stage->services;
    call_stage_assert_all_given_back(stage);
    pool_cache_destroy(stage->memory);
    early_copy_destroy(services->executors.list[0].early_copy);
    pool_destroy(services->pool);
    free(stage->pinned);
    queue_free(services->executors.list[0].queue);
    device_close(services->executors.list[0].device);
}
