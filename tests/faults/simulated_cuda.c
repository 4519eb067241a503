/*
 * simulated_cuda - the calls of the CUDA runtime that server/device/cuda makes, on a GPU of host
 * memory. With simulated_kernels.c, the daemon's CUDA device runs on a machine without a GPU. The
 * environment variable SIMULATED_DEVICES is the number of GPUs, 1 without it. None of them can copy
 * from another directly. SIMULATED_NODE is the NUMA node of all of them, not known without it. With
 * SIMULATED_ELSEWHERE, pinned host memory has another address on the GPU than on the host.
 *
 * A stream executes what is enqueued at once, in the calling thread. A stream that a test keeps
 * busy (fault_kernels.h) and the events that were recorded in it in the meantime seem unfinished
 * until that time is over. Memory comes from the C library, so that AddressSanitizer sees what is
 * written beyond a block and what is not given back.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/faults/fail_cuda.h"
#include "tests/faults/fault_kernels.h"

enum { ALIGNMENT = 256 };
static const size_t MEMORY_BYTES = 1 << 30;

struct CUstream_st {
    uint64_t busy_until_ns; /* the monotonic clock */
};
struct CUevent_st {
    uint64_t done_ns; /* when everything before it is finished */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t done_ns(const struct CUstream_st *stream)
{
    const uint64_t now = now_ns();
    return stream->busy_until_ns > now ? stream->busy_until_ns : now;
}

static cudaError_t sleep_until(uint64_t end_ns)
{
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u),
                                 .tv_nsec = (long)(end_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
    }
    return cudaSuccess;
}

/* ---- devices and errors ---- */

static _Thread_local int current_device;

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *devices = getenv("SIMULATED_DEVICES");
    *count = devices != NULL ? atoi(devices) : 1;
    return cudaSuccess;
}

static cudaError_t find_device(int device)
{
    int count;
    (void)cudaGetDeviceCount(&count);
    return device >= 0 && device < count ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int device)
{
    const cudaError_t error = find_device(device);
    if (error == cudaSuccess)
        current_device = device;
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    *properties = (struct cudaDeviceProp){.major = 8, .totalGlobalMem = MEMORY_BYTES};
    strncpy(properties->name, "Simulated GPU", sizeof properties->name - 1);
    return find_device(device);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    const char *node = getenv("SIMULATED_NODE");
    *value = attribute != cudaDevAttrHostNumaId ? 1 : node != NULL ? atoi(node) : -1;
    return find_device(device);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    *lowest = 0;
    *highest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *possible, int device, int peer)
{
    *possible = 0;
    return find_device(device) == cudaSuccess ? find_device(peer) : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)peer, (void)flags;
    return cudaErrorInvalidDevice;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess                 ? "no error"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "an error of the simulated GPU";
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}

/* ---- memory ---- */

static cudaError_t allocate(void **memory, size_t bytes)
{
    *memory = bytes > MEMORY_BYTES
                  ? NULL
                  : aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return *memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = MEMORY_BYTES;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes);
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(memory, bytes);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return allocate(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)memory, (void)bytes, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    (void)memory;
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **there, void *memory, unsigned flags)
{
    (void)flags;
    *there = getenv("SIMULATED_ELSEWHERE") == NULL ? memory : (char *)memory + ALIGNMENT;
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    (void)memory, (void)handle, (void)flags;
    return cudaErrorInvalidValue;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    (void)memory;
    return cudaErrorInvalidValue;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    (void)symbol, (void)version, (void)flags, (void)status;
    *function = NULL;
    return cudaErrorSymbolNotFound;
}

/* ---- copies and launches ---- */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    (void)kind, (void)stream;
    if (to_pitch < width || from_pitch < width)
        return cudaErrorInvalidValue;
    for (size_t row = 0; row < height; row++)
        memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

/* The kernels of simulated_kernels.c compute after this call. */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                void **arguments)
{
    (void)config, (void)function, (void)arguments;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return cudaSuccess;
}

void fault_kernel_trap(cudaStream_t stream)
{
    (void)stream;
    cuda_calls_fail(cudaErrorLaunchFailure);
}

void fault_kernel_busy(cudaStream_t stream, int64_t ms)
{
    stream->busy_until_ns = done_ns(stream) + (uint64_t)ms * 1000000u;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    *stream = calloc(1, sizeof **stream);
    return *stream != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return stream->busy_until_ns > now_ns() ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return sleep_until(stream->busy_until_ns);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (stream->busy_until_ns < event->done_ns)
        stream->busy_until_ns = event->done_ns;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->done_ns = done_ns(stream);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->done_ns > now_ns() ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return sleep_until(event->done_ns);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)((double)(to->done_ns - from->done_ns) / 1e6);
    return cudaSuccess;
}
