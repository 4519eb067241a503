/* The functions of the CUDA backend in a build without CUDA. */
#include <stddef.h>

#include "server/device/device_open.h"
#include "server/device/device_ops.h"
#include "server/device/device_shm.h"

static enum gemmd_error without_cuda(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "backend",
                     "this build of gemmd has no CUDA; it computes on the CPU");
}

const char *device_cuda_absence(void)
{
    return "this build of gemmd has no CUDA; --backend cpu is what it has";
}

enum gemmd_error device_cuda_count(uint32_t *count, struct fault *fault)
{
    (void)fault;
    *count = 0;
    return GEMMD_OK;
}

bool device_cuda_uuid(int32_t index, char uuid[DEVICE_UUID_SIZE])
{
    (void)index;
    (void)uuid;
    return false;
}

int32_t device_cuda_host_node(int32_t index)
{
    (void)index;
    return -1;
}

enum gemmd_error device_cuda_open(const struct device_options *options, struct device **device,
                                  struct fault *fault)
{
    (void)options;
    (void)device;
    return without_cuda(fault);
}

void *device_cuda_host_alloc(uint64_t bytes, struct fault *fault)
{
    (void)bytes;
    without_cuda(fault);
    return NULL;
}

void device_cuda_host_free(void *memory)
{
    (void)memory;
}

enum gemmd_error device_cuda_pin(void *memory, uint64_t bytes, struct fault *fault)
{
    (void)memory;
    (void)bytes;
    return without_cuda(fault);
}

void device_cuda_unpin(void *memory)
{
    (void)memory;
}

enum gemmd_error device_cuda_shm_open(const struct device_shm_handle *handle, uint64_t bytes,
                                      void **memory, struct fault *fault)
{
    (void)handle;
    (void)bytes;
    (void)memory;
    return without_cuda(fault);
}

void device_cuda_shm_close(void *memory)
{
    (void)memory;
}
