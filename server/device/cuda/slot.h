/*
 * slot.h - a slot, which runs one launch at a time: a CUDA stream, the kernels' context for it, and
 * the events between the steps of a work.
 *
 * Used by the thread that called device_enter, with the device set.
 */
#ifndef SERVER_DEVICE_CUDA_SLOT_H
#define SERVER_DEVICE_CUDA_SLOT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/launch_cut.h"
#include "server/device/device_layout.h"

/* The work that has the slot to itself (own_launch.h): what it computes in device memory, and how
 * far it has got. */
struct cuda_own {
    unsigned char *range;        /* the work's range of device memory */
    struct device_layout layout; /* of the range */
    struct task task;            /* with its problem in device memory */
    void *workspace;             /* the kernel's; NULL: it needs none */
    struct launch_cut cut;
    uint64_t enqueued, ended; /* launches; `ended` is kept only while launches are to be enqueued */
    bool stops; /* no further launch is enqueued, because the result is no longer wanted */
};

struct cuda_slot {
    cudaStream_t stream;
    cudaEvent_t begun, copied_in, computed, ended;
    cudaEvent_t launch_ended[2]; /* of launches with even and with odd numbers */
    struct cuda_own own;
    uint64_t launched_ns; /* when a shared launch was started, by the monotonic clock */
    /* Of the check: of the work that has the slot to itself, or of the rows of a stack
     * [OPERATION_STACK_ROWS]; pinned; owned. */
    double *residuals;
    /* The checks of the works of a shared launch [DEVICE_LAUNCH_WORKS_MAX]; pinned; owned. NULL:
     * the slot has no shared launches. */
    struct operation_small_check *checks;
    struct gemm_context *context;
    void *stack; /* the workspace of stacks, borrowed; NULL: the slot runs no stacks */
    bool failed; /* the works failed in submit, and nothing of them is left in the stream */
};

/* Opens a zeroed slot. `priority` is CUDA's: a smaller number is a higher priority. `timed`: the
 * events record the time at which they are reached. `shared`: the slot is for shared launches.
 * After a failure too, cuda_slot_close closes what was opened. */
enum gemmd_error cuda_slot_open(struct cuda_slot *slot, int priority, bool timed, bool shared,
                                struct fault *fault);
/* Does nothing for a zeroed slot. */
void cuda_slot_close(struct cuda_slot *slot);

#endif
