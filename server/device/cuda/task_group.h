/*
 * task_group.h - runs tasks that share a launch in a slot: copies in, the kernel, copies out.
 *
 * Each task has its own range of device memory. The small parts of tasks that share a launch are
 * moved by one kernel launch for all of them, which reads and writes pinned host memory directly,
 * so that the host issues no copy for each task. Used by run.c and cuda_device.c only, on the
 * thread that called device_enter.
 */
#ifndef SERVER_DEVICE_CUDA_TASK_GROUP_H
#define SERVER_DEVICE_CUDA_TASK_GROUP_H

#include <cuda_runtime_api.h>

#include "server/device/cuda/copy.h"
#include "server/device/cuda/slot.h"
#include "server/device/device.h"
#include "server/device/device_layout.h"
#include "server/device/work.h"

/* A failure of a CUDA call or of a kernel: the kernel's code, or the error of the call. */
struct cuda_failure {
    const char *call; /* name of the call or kernel; NULL: nothing failed */
    enum gemmd_error code;
    cudaError_t error;
};

/* Arrays in which a group is prepared, by one thread at a time. */
struct cuda_task_group {
    struct device_layout layouts[DEVICE_LAUNCH_WORKS_MAX];
    union operation_problem problems[DEVICE_LAUNCH_WORKS_MAX];
    struct operation_member members[DEVICE_LAUNCH_WORKS_MAX];
};

/* Enqueues a launch list of tasks that share a launch. `group->layouts` are those of the works,
 * in the order of the list. The range of each work begins at its device_offset from `memory`. */
struct cuda_failure cuda_task_group_enqueue(const struct cuda_slot *slot,
                                            struct cuda_task_group *group, const struct work *works,
                                            unsigned char *memory);

/* Enqueues the kernels that "auto" chooses for the problems of each operation->warm, on zeroed
 * operands in the `bytes` of memory at `range`. Problems that need more memory are left out. */
struct cuda_failure cuda_task_group_warm(const struct cuda_slot *slot,
                                         const struct gemm_device *device, unsigned char *range,
                                         uint64_t bytes);

#endif
