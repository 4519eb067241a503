/* The CUDA backend's part of device_shm.h. A CUDA call that fails here does not harm the context.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <string.h>

#include "server/device/device_shm.h"

_Static_assert(sizeof(cudaIpcMemHandle_t) == DEVICE_SHM_HANDLE_BYTES, "the handle's size");

static enum gemmd_error shm_failed(struct fault *fault, enum gemmd_error code, const char *call,
                                   cudaError_t error)
{
    (void)cudaGetLastError();
    return fault_set(fault, code, NULL, "%s: %s", call, cudaGetErrorString(error));
}

enum gemmd_error device_cuda_pin(void *memory, uint64_t bytes, struct fault *fault)
{
    void *there = NULL;
    cudaError_t error =
        cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaSuccess)
        return shm_failed(fault, GEMMD_ERR_OUT_OF_MEMORY,
                          "host memory could not be pinned for the GPU", error);
    /* Kernels are given addresses of the host, which a GPU with unified addressing can use. */
    error = cudaHostGetDevicePointer(&there, memory, 0);
    if (error == cudaSuccess && there == memory)
        return GEMMD_OK;
    (void)cudaHostUnregister(memory);
    return error != cudaSuccess ? shm_failed(fault, GEMMD_ERR_OUT_OF_MEMORY,
                                             "the GPU gave no address for pinned memory", error)
                                : fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                                            "this GPU cannot use host memory where it lies");
}

void device_cuda_unpin(void *memory)
{
    (void)cudaHostUnregister(memory);
    (void)cudaGetLastError();
}

/* Number of bytes from an address to the end of its allocation; 0: unknown. Only CUDA's driver API
 * has this. */
static uint64_t bytes_from(void *start)
{
    CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr) = NULL;
    void *found = NULL;
    CUdeviceptr base = 0;
    size_t size = 0;
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)start;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, 12000,
                                                         cudaEnableDefault, NULL);
#else
    cudaError_t error =
        cudaGetDriverEntryPoint("cuMemGetAddressRange", &found, cudaEnableDefault, NULL);
#endif
    if (error != cudaSuccess || found == NULL)
        return 0;
    memcpy(&range, &found,
           sizeof range); /* C has no cast from a pointer to an object to a pointer to a function */
    if (range(&base, &size, at) != CUDA_SUCCESS)
        return 0;
    return base + size - at;
}

enum gemmd_error device_cuda_shm_open(const struct device_shm_handle *handle, uint64_t bytes,
                                      void **memory, struct fault *fault)
{
    cudaIpcMemHandle_t ipc;
    void *start = NULL;
    memcpy(&ipc, handle->bytes, sizeof ipc);
    cudaError_t error = cudaIpcOpenMemHandle(&start, ipc, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess)
        return shm_failed(
            fault, GEMMD_ERR_MALFORMED,
            "raw_handle opens no memory here (it has to be of the same GPU, from another "
            "process, in the same IPC namespace)",
            error);
    /* The memory behind the allocation belongs to others. */
    const uint64_t there = bytes_from(start);
    if (there >= bytes) {
        *memory = start;
        return GEMMD_OK;
    }
    (void)cudaIpcCloseMemHandle(start);
    (void)cudaGetLastError();
    return fault_set(fault, GEMMD_ERR_MALFORMED, "byte_size",
                     "byte_size is %" PRIu64 "; the memory behind raw_handle has %" PRIu64 " bytes",
                     bytes, there);
}

void device_cuda_shm_close(void *memory)
{
    (void)cudaIpcCloseMemHandle(memory);
    (void)cudaGetLastError();
}
