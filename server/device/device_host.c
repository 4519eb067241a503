/* Host memory that a device can copy from and to at full speed, and where it is. */
#include "server/device/device_ops.h"

int32_t device_host_node(enum gemm_backend backend, int32_t index)
{
    return backend == GEMM_BACKEND_CUDA ? device_cuda_host_node(index) : -1;
}

void *device_host_alloc(enum gemm_backend backend, uint64_t bytes, struct fault *fault)
{
    return backend == GEMM_BACKEND_CUDA ? device_cuda_host_alloc(bytes, fault)
                                        : device_cpu_host_alloc(bytes, fault);
}

void device_host_free(enum gemm_backend backend, void *memory, uint64_t bytes)
{
    if (memory == NULL)
        return;
    if (backend == GEMM_BACKEND_CUDA)
        device_cuda_host_free(memory);
    else
        device_cpu_host_free(memory, bytes);
}
