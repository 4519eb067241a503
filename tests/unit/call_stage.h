/*
 * call_stage.h - what a compute_call needs of a daemon, around a simulated device that copies
 * early.
 */
#ifndef UNIT_CALL_STAGE_H
#define UNIT_CALL_STAGE_H

#include "server/daemon.h"
#include "simulated_device.h"

struct call_stage {
    struct daemon daemon; /* device, limits, queue, pool and early_copy */
    struct simulated_device *device;
    struct pool_cache *memory; /* of the calls */
};

/* With so much pinned memory, and device memory; every work is done at once. */
void call_stage_start(struct call_stage *stage, uint64_t memory_bytes);
/* Fails the test if any memory or place is still held. */
void call_stage_assert_all_given_back(struct call_stage *stage);
void call_stage_stop(struct call_stage *stage);

#endif
