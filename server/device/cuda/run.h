/*
 * run.h - runs works in the slots of an NVIDIA GPU.
 *
 * A work that has a slot to itself is copied in, computed and copied out in the stream of the slot
 * (own_launch.h), except for early copies, which have a stream of their own (copy.h). The slots run
 * side by side, so that the copies in, kernels and copies out of different works overlap.
 * Tasks of one kind go through a slot together (task_group.h).
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
 * Used by cuda_device.c, which opens, warms and closes the device. Functions are called from the
 * thread that called device_enter, with the device set, unless their comment says otherwise.
 */
#ifndef SERVER_DEVICE_CUDA_RUN_H
#define SERVER_DEVICE_CUDA_RUN_H

#include "server/device/cuda/cuda_device.h"

/* `submit` and `poll` of struct device_ops. */
void cuda_submit(struct device *device, uint32_t number, struct work *works);
bool cuda_poll(struct device *device, uint32_t number, struct work *works);

/* Waits until everything that was enqueued on a stream has ended. If that fails, the device is
 * lost. */
void cuda_wait_for(struct cuda_device *cuda, cudaStream_t stream);

#endif
