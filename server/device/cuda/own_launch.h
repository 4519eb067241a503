/*
 * own_launch.h - a work that has a slot to itself: copies in, its launches, copies out.
 *
 * A long computation is cut into several launches (kernels/launch_cut.h). Two of them are in the
 * stream at a time, so that the device does not wait for the host between them. The others are
 * enqueued as launches end, and only while the result is still wanted.
 *
 * Used by run.c and cuda_device.c, on the thread that called device_enter.
 */
#ifndef SERVER_DEVICE_CUDA_OWN_LAUNCH_H
#define SERVER_DEVICE_CUDA_OWN_LAUNCH_H

#include "server/device/cuda/cuda_device.h"

/* Enqueues the copies in and the first launches of a work, and the copies out behind the last
 * launch. If the work's range of device memory is too small, sets the work's status, and nothing is
 * enqueued. */
struct cuda_failure cuda_own_begin(struct cuda_device *cuda, struct cuda_slot *slot,
                                   struct work *work);

enum cuda_own_state {
    CUDA_OWN_LAUNCHING, /* some launches have not been enqueued yet */
    CUDA_OWN_ENDING,    /* everything is enqueued, and slot->ended marks the end */
    CUDA_OWN_STOPPED, /* the result is no longer wanted, and nothing of the work is in the stream */
};
/* Looks at the launches in the stream, and enqueues the next one if one has ended. */
enum cuda_own_state cuda_own_continue(struct cuda_device *cuda, struct cuda_slot *slot,
                                      struct work *work, struct cuda_failure *failure);

#endif
