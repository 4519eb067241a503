/* The properties of a device, and whether the device is lost. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/device/device_ops.h"

void device_init(struct device *device, const struct device_ops *ops, uint32_t streams)
{
    if (streams < 1)
        streams = 1;
    if (streams > DEVICE_STREAMS_MAX)
        streams = DEVICE_STREAMS_MAX;
    *device =
        (struct device){.ops = ops, .shared_slots = ops->shares_launches ? DEVICE_SHARED_SLOTS : 0};
    device->slots = streams + device->shared_slots;
}

const struct device_info *device_info(const struct device *device)
{
    return &device->info;
}

uint32_t device_left_out(const struct device *device, const struct device_left_out **list)
{
    *list = device->left_out;
    return device->left_out_count;
}

struct gemm_device device_gemm(const struct device *device)
{
    struct gemm_device of = {
        .backend = device->info.backend,
        .compute_capability = device->info.compute_capability,
    };
    memcpy(of.without, device->without, sizeof of.without);
    return of;
}

void device_tile(const struct device *device, const struct task *task, struct operation_tile *out)
{
    *out = (struct operation_tile){.us = 0};
    if (task->kernel->tile != NULL && device->ops->tile != NULL)
        device->ops->tile(device, task, out);
}

struct arena *device_arena(struct device *device)
{
    return device->arena;
}

struct device_span device_tensor_memory(const struct device *device)
{
    return device->tensors;
}

uint64_t device_stack_memory(const struct device *device)
{
    return device->stack_bytes;
}

void device_set_lost(struct device *device, const char *format, ...)
{
    if (device_lost(device))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->reason, sizeof device->reason, format, arguments);
    va_end(arguments);
    atomic_store_explicit(&device->lost, true, memory_order_release);
}

bool device_lost(const struct device *device)
{
    return atomic_load_explicit(&device->lost, memory_order_acquire);
}

const char *device_lost_reason(const struct device *device)
{
    return device_lost(device) ? device->reason : "";
}
