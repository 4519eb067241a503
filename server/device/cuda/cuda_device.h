/*
 * cuda_device.h - an NVIDIA GPU as a struct device, which runs works in the slots of the GPU.
 *
 * A work that has a slot to itself is copied in, computed and copied out in the stream of the slot
 * (own_launch.h), except for early copies, which have a stream of their own (copy.h). The slots run
 * side by side, so that the copies in, kernels and copies out of different works overlap.
 * Tasks of one kind go through a slot together (cuda_task_group_enqueue).
 *
 * Small works share one launch for each kernel in a slot for shared launches, without copies: the
 * kernel reads operands from and writes results to pinned host memory. The streams of these slots
 * have a higher priority than the others, since small works take little of the device and mostly
 * wait for the bus. Stacks run there too (device_stack.h), in a workspace that each of these slots
 * has behind the arena.
 *
 * The slot of the probe has the highest priority, and its kernel uses host memory directly, so that
 * a queue of large copies does not make the device look unhealthy.
 *
 * CUDA has two kinds of errors. After most errors the next call works, and only the work at hand
 * fails. After a sticky error (an illegal address, an uncorrectable memory error) every call fails
 * for the rest of the process: the device is lost.
 *
 * Internal to server/device/cuda: cuda_device.c opens, warms and closes the device. Functions are
 * called from the thread that called device_enter, with the device set.
 */
#ifndef SERVER_DEVICE_CUDA_CUDA_DEVICE_H
#define SERVER_DEVICE_CUDA_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "server/device/cuda/copy.h"
#include "server/device/cuda/slot.h"
#include "server/device/device.h"
#include "server/device/device_layout.h"
#include "server/device/device_ops.h"
#include "server/device/work.h"

/* Arrays in which a group is prepared, by one thread at a time. */
struct cuda_task_group {
    struct device_layout layouts[DEVICE_LAUNCH_WORKS_MAX];
    union operation_problem problems[DEVICE_LAUNCH_WORKS_MAX];
    struct operation_member members[DEVICE_LAUNCH_WORKS_MAX];
};

struct cuda_device {
    struct device base;
    unsigned char *memory; /* the arena's span, in device memory */
    void *tensors;         /* tensor memory */
    struct cuda_slot slots[DEVICE_SLOTS_MAX];
    struct cuda_early early;
    struct cuda_task_group group; /* used during a submit */
};

/* ---- run.c ---- */

/* `submit` and `poll` of struct device_ops. */
void cuda_submit(struct device *device, uint32_t number, struct work *works);
bool cuda_poll(struct device *device, uint32_t number, struct work *works);

/* Waits until everything that was enqueued on a stream has ended. If that fails, the device is
 * lost. */
void cuda_wait_for(struct cuda_device *cuda, cudaStream_t stream);

/* ---- task_group.c: copies in, the kernel, copies out of tasks that share a launch in a slot.
 *
 * Each task has its own range of device memory. The small parts of tasks that share a launch are
 * moved by one kernel launch for all of them, which reads and writes pinned host memory directly,
 * so that the host issues no copy for each task. ---- */

/* A failure of a CUDA call or of a kernel: the kernel's code, or the error of the call. */
struct cuda_failure {
    const char *call; /* name of the call or kernel; NULL: nothing failed */
    enum gemmd_error code;
    cudaError_t error;
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
