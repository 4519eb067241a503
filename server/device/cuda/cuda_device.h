/*
 * cuda_device.h - an NVIDIA GPU as a struct device, for run.c, own_launch.c and cuda_device.c.
 */
#ifndef SERVER_DEVICE_CUDA_CUDA_DEVICE_H
#define SERVER_DEVICE_CUDA_CUDA_DEVICE_H

#include "server/device/cuda/copy.h"
#include "server/device/cuda/slot.h"
#include "server/device/cuda/task_group.h"
#include "server/device/device_ops.h"

struct cuda_device {
    struct device base;
    unsigned char *memory; /* the arena's span, in device memory */
    void *tensors;         /* tensor memory */
    struct cuda_slot slots[DEVICE_SLOTS_MAX];
    struct cuda_early early;
    struct cuda_task_group group; /* used during a submit */
};

#endif
