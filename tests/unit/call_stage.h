/*
 * call_stage.h - the services that a compute_call needs, around a simulated device that copies
 * early.
 */
#ifndef UNIT_CALL_STAGE_H
#define UNIT_CALL_STAGE_H

#include "server/api/services.h"
#include "simulated_device.h"

struct call_stage {
    struct config config;     /* of the calls: limits of size */
    struct services services; /* device, queue, pool and early_copy */
    void *pinned;             /* the pool's memory */
    struct simulated_device *device;
    struct pool_cache *memory; /* of the calls */
};

/* With so much pinned memory, and device memory; every work is done at once. */
void call_stage_start(struct call_stage *stage, uint64_t memory_bytes);
/* Fails the test if any memory or place is still held. */
void call_stage_assert_all_given_back(struct call_stage *stage);
void call_stage_stop(struct call_stage *stage);

#endif
