#include "server/device/device_shm.h"

#include <inttypes.h>

#include "server/device/device_ops.h"

static bool is_cuda(const struct device *device)
{
    return device->info.backend == GEMM_BACKEND_CUDA;
}

void device_shm_enter(struct device *device)
{
    if (device->ops->enter != NULL)
        device->ops->enter(device);
}

enum gemmd_error device_shm_pin(struct device *device, void *memory, uint64_t bytes, bool *pinned,
                                struct fault *fault)
{
    enum gemmd_error code = is_cuda(device) ? device_cuda_pin(memory, bytes, fault) : GEMMD_OK;
    *pinned = is_cuda(device) && code == GEMMD_OK;
    return code;
}

void device_shm_unpin(struct device *device, void *memory)
{
    (void)device;
    device_cuda_unpin(memory);
}

enum gemmd_error device_shm_open(struct device *device, const struct device_shm_handle *handle,
                                 int32_t index, uint64_t bytes, void **memory, struct fault *fault)
{
    if (!is_cuda(device))
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "this daemon computes on the CPU, which has no CUDA memory");
    if (index != device->info.index)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "device_id",
                         "device_id is %" PRId32 "; this daemon computes on device %" PRId32, index,
                         device->info.index);
    return device_cuda_shm_open(handle, bytes, memory, fault);
}

void device_shm_close(struct device *device, void *memory)
{
    (void)device;
    device_cuda_shm_close(memory);
}
