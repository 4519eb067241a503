/*
 * run.h - works on their way through the slots of an NVIDIA GPU.
 *
 * A work is copied in, computed and copied back in its slot's stream, but for what was copied while
 * its body arrived, which has a stream of its own (device_cuda_copy.h). Slots run side by side, so
 * that copies in, kernels and copies out of different works overlap. Attentions of one kind go
 * through such a slot together (device_cuda_attention.h).
 *
 * Small works share one launch in a slot for such, without copies: operands are read and results
 * written in pinned host memory. Their stream goes before the others', since they take little of
 * the device and what they mostly do is wait for the bus. Stacks of rows run there too
 * (device_stack.h), in a workspace that each such slot has behind the arena.
 *
 * The probe's slot has the highest priority, and its kernel uses host memory where it lies: queues
 * of large copies are no sign of ill health.
 *
 * Errors come in two kinds. After most, the next call works: only the work at hand fails. After
 * a sticky one (an illegal address, an uncorrectable memory error) every call fails for the
 * rest of the process: the device is lost.
 *
 * For device_cuda.c, which opens, warms and closes the device. Functions are called from the thread
 * that device_enter named, with the device set, unless they say otherwise.
 */
#ifndef SERVER_DEVICE_CUDA_RUN_H
#define SERVER_DEVICE_CUDA_RUN_H

#include "server/device/cuda/attention.h"
#include "server/device/cuda/copy.h"
#include "server/device/cuda/slot.h"
#include "server/device/device_layout.h"
#include "server/device/device_ops.h"

struct cuda_device {
    struct device base;
    unsigned char *memory; /* the arena's span, in device memory */
    void *tensors;         /* tensor memory */
    struct cuda_slot slots[DEVICE_SLOTS_MAX];
    struct cuda_early early;
    const struct gemm_problem
        *group[DEVICE_LAUNCH_WORKS_MAX]; /* used during a submit, like the next */
    struct cuda_attention_group attentions;
};

/* As struct device_ops has them. */
void cuda_submit(struct device *device, uint32_t number, struct work *works);
bool cuda_poll(struct device *device, uint32_t number, struct work *works);

/* The layout of a work that has a slot to itself. False on overflow. Any thread. */
bool cuda_layout_of(const struct device *device, const struct gemm_problem *problem,
                    const struct gemm_kernel *kernel, struct device_layout *layout);

/* Until all that was enqueued has ended. The device is lost if that fails. */
void cuda_wait_for(struct cuda_device *cuda, cudaStream_t stream);

#endif
