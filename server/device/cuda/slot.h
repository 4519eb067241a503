/*
 * slot.h - where one work runs at a time: a stream, the kernels' context in it, and the
 * events that part its steps.
 *
 * Used by the thread that device_enter named, with the device set.
 */
#ifndef SERVER_DEVICE_CUDA_SLOT_H
#define SERVER_DEVICE_CUDA_SLOT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemm.h"

struct cuda_slot {
    cudaStream_t stream;
    cudaEvent_t begun, copied_in, computed, ended;
    uint64_t launched_ns; /* of a shared launch */
    struct gemm_context *context;
    void *stack; /* the workspace of stacks, borrowed; NULL: runs none */
    bool failed; /* the work at hand failed in submit; nothing of it is left in the stream */
};

/* `priority` is CUDA's: smaller is more urgent. `timed`: whether the events tell when they were
 * reached, or only that. What was opened is closed by cuda_slot_close, also after a failure. */
enum gemmd_error cuda_slot_open(struct cuda_slot *slot, int priority, bool timed,
                                struct fault *fault);
/* Of a slot of zeros: nothing. */
void cuda_slot_close(struct cuda_slot *slot);

#endif
