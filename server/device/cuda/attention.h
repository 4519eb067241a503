/*
 * attention.h - an attention, or several that share a launch, on their way through a
 * slot: copies in, the kernel, copies out. Used by device_cuda*.c only, on their thread.
 *
 * Each has its own range of device memory. Of those that share, small parts are moved by one launch
 * for all, which reads and writes pinned host memory itself, so that nothing is issued for each.
 */
#ifndef SERVER_DEVICE_CUDA_ATTENTION_H
#define SERVER_DEVICE_CUDA_ATTENTION_H

#include <cuda_runtime_api.h>

#include "server/device/attention_parts.h"
#include "server/device/cuda/copy.h"
#include "server/device/cuda/slot.h"
#include "server/device/device.h"
#include "server/device/work.h"

/* What failed: a call or a kernel, with the code that the kernel gave or the error of the call. */
struct cuda_failure {
    const char *call; /* NULL: nothing */
    enum gemmd_error code;
    cudaError_t error;
};

/* Enqueues the whole work, in the range of device memory that begins at `range`; stops at the first
 * failure. `parts` are those of the work's problem and kernel, `all` the plan of its copies in,
 * some of which may have gone through `early`. */
struct cuda_failure cuda_attention_enqueue(const struct cuda_slot *slot,
                                           const struct cuda_early *early,
                                           const struct attention_parts *parts, struct copy_in *all,
                                           const struct work *work, unsigned char *range);

/* What a group is made in, by one thread at a time. */
struct cuda_attention_group {
    struct attention_parts parts[DEVICE_LAUNCH_WORKS_MAX];
    struct attention_problem problems[DEVICE_LAUNCH_WORKS_MAX];
    struct attention_member members[DEVICE_LAUNCH_WORKS_MAX];
};

/* The same for a chain that shares a launch. `group->parts` are those of the works, in their order,
 * whose ranges lie where their device_offset says from `memory` on. */
struct cuda_failure cuda_attention_enqueue_group(const struct cuda_slot *slot,
                                                 struct cuda_attention_group *group,
                                                 const struct work *works, unsigned char *memory);

/* Enqueues what "auto" chooses for each type, width and number of queries, on whatever lies in
 * memory at `range`, as far as `bytes` suffice. */
struct cuda_failure cuda_attention_warm(const struct cuda_slot *slot,
                                        const struct gemm_device *device, unsigned char *range,
                                        uint64_t bytes);

#endif
