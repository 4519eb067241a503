#include "tests/faults/fail_cuda.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/fault_kernels.h"

static _Atomic(struct cuda_plan *) the_plan; /* NULL until the file is mapped */
static atomic_int sticky_error;              /* of every call; cudaSuccess: none */
static _Thread_local cudaError_t last_error; /* that cudaGetLastError returns next */
extern const char __executable_start[];      /* the linker's name of the program's first byte */

__attribute__((constructor)) static void map_plan(void)
{
    const char *path = getenv("FAIL_CUDA");
    const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct cuda_plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        atomic_store(&the_plan, mapped);
}

/* Counts a call of a site in the first entry that is free or the site's. The program starts as one
 * thread and reaches each site again and again, so the name is complete when a test reads it. */
static void count_call(struct cuda_plan *plan, int64_t offset, const char *name)
{
    for (uint32_t tries = 0; tries < CUDA_SITES_MAX; tries++) {
        struct cuda_site *site = &plan->sites[((uint64_t)offset + tries) % CUDA_SITES_MAX];
        int_least64_t found = 0;
        if (atomic_compare_exchange_strong(&site->offset, &found, offset)) {
            strncpy(site->name, name, CUDA_CALL_NAME - 1);
            found = offset;
        }
        if (found == offset) {
            atomic_fetch_add(&site->calls, 1);
            return;
        }
    }
}

/* Whether a planned fault happens at this call, which is then counted. */
static bool happens(struct cuda_planned *planned, int64_t offset, bool launches)
{
    const int64_t site = atomic_load(&planned->site);
    if (atomic_load(&planned->to_fail) <= 0 ||
        (site == -1 ? !launches : site != 0 && site != offset))
        return false;
    if (atomic_fetch_sub(&planned->left, 1) > 0 || atomic_fetch_sub(&planned->to_fail, 1) <= 0)
        return false;
    atomic_fetch_add(&planned->failed, 1);
    return true;
}

/* The planned fault that happens at this call; NULL: none. */
static struct cuda_planned *draw(struct cuda_plan *plan, int64_t offset, bool launches)
{
    for (uint32_t i = 0; i < CUDA_PLANNED; i++)
        if (happens(&plan->faults[i], offset, launches))
            return &plan->faults[i];
    return NULL;
}

static void wait_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

void cuda_calls_fail(cudaError_t error)
{
    atomic_store(&sticky_error, (int)error);
}

/* `stream` is that of a launch, and NULL stands for a call that launches nothing. */
static cudaError_t decide(const char *name, const void *from, const cudaStream_t *stream)
{
    struct cuda_plan *plan = atomic_load(&the_plan);
    if (plan == NULL)
        return cudaSuccess;
    const int64_t offset = (const char *)from - __executable_start;
    count_call(plan, offset, name);
    cudaError_t error = (cudaError_t)atomic_load(&sticky_error);
    if (error != cudaSuccess)
        return last_error = error;
    struct cuda_planned *planned = draw(plan, offset, stream != NULL);
    if (planned == NULL)
        return cudaSuccess;
    const int64_t ms = atomic_load(&planned->ms);
    switch ((enum cuda_fault)atomic_load(&planned->fault)) {
    case CUDA_FAULT_STICKY:
        error = (cudaError_t)atomic_load(&planned->error);
        cuda_calls_fail(error);
        break;
    case CUDA_FAULT_ERROR:
        error = (cudaError_t)atomic_load(&planned->error);
        break;
    case CUDA_FAULT_TRAP:
        if (stream != NULL)
            fault_kernel_trap(*stream);
        break;
    case CUDA_FAULT_BUSY:
        if (stream != NULL)
            fault_kernel_busy(*stream, ms);
        break;
    case CUDA_FAULT_WAIT:
        wait_ms(ms);
        break;
    }
    return error == cudaSuccess ? error : (last_error = error);
}

cudaError_t cuda_call_fails(const char *name, const void *site)
{
    return decide(name, site, NULL);
}

/* ---- the calls ---- */

/* A call that fails does nothing. The name is expanded first, because headers of CUDA define some
 * names as other names. */
#define FAIL(name, parameters, arguments) FAIL_EXPANDED(name, parameters, arguments)
#define FAIL_EXPANDED(name, parameters, arguments)                                                 \
    cudaError_t __real_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters                                                           \
    {                                                                                              \
        const cudaError_t error = cuda_call_fails(#name, __builtin_return_address(0));             \
        return error != cudaSuccess ? error : __real_##name arguments;                             \
    }

/* A call that gives something back does so even if it returns an error: CUDA returns errors of
 * earlier launches from such calls. */
#define FAIL_AFTER(name, parameters, arguments) FAIL_AFTER_EXPANDED(name, parameters, arguments)
#define FAIL_AFTER_EXPANDED(name, parameters, arguments)                                           \
    cudaError_t __real_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters;                                                          \
    cudaError_t __wrap_##name parameters                                                           \
    {                                                                                              \
        const cudaError_t error = cuda_call_fails(#name, __builtin_return_address(0));             \
        const cudaError_t real = __real_##name arguments;                                          \
        return error != cudaSuccess ? error : real;                                                \
    }

FAIL(cudaSetDevice, (int device), (device))
FAIL(cudaGetDevice, (int *device), (device))
FAIL(cudaGetDeviceCount, (int *count), (count))
FAIL(cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device),
     (properties, device))
FAIL(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
     (value, attribute, device))
FAIL(cudaDriverGetVersion, (int *version), (version))
FAIL(cudaDeviceGetStreamPriorityRange, (int *lowest, int *highest), (lowest, highest))
FAIL(cudaMemGetInfo, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
FAIL(cudaMalloc, (void **memory, size_t bytes), (memory, bytes))
FAIL_AFTER(cudaFree, (void *memory), (memory))
FAIL(cudaHostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))
FAIL(cudaMallocHost, (void **memory, size_t bytes), (memory, bytes))
FAIL_AFTER(cudaFreeHost, (void *memory), (memory))
FAIL(cudaHostRegister, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))
FAIL_AFTER(cudaHostUnregister, (void *memory), (memory))
FAIL(cudaHostGetDevicePointer, (void **there, void *memory, unsigned flags), (there, memory, flags))
FAIL(cudaMemcpyAsync,
     (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
     (to, from, bytes, kind, stream))
FAIL(cudaMemcpy2DAsync,
     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     (to, to_pitch, from, from_pitch, width, height, kind, stream))
FAIL(cudaMemsetAsync, (void *memory, int value, size_t bytes, cudaStream_t stream),
     (memory, value, bytes, stream))
FAIL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
FAIL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
     (stream, flags, priority))
FAIL_AFTER(cudaStreamDestroy, (cudaStream_t stream), (stream))
FAIL(cudaStreamQuery, (cudaStream_t stream), (stream))
FAIL_AFTER(cudaStreamSynchronize, (cudaStream_t stream), (stream))
FAIL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
     (stream, event, flags))
FAIL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))
FAIL_AFTER(cudaEventDestroy, (cudaEvent_t event), (event))
FAIL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
FAIL(cudaEventQuery, (cudaEvent_t event), (event))
FAIL_AFTER(cudaEventSynchronize, (cudaEvent_t event), (event))
FAIL(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to), (ms, from, to))
FAIL(cudaFuncSetAttribute, (const void *function, enum cudaFuncAttribute attribute, int value),
     (function, attribute, value))

cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                       void **arguments)
{
    const cudaError_t error =
        decide("cudaLaunchKernelExC", __builtin_return_address(0), &config->stream);
    return error != cudaSuccess ? error : __real_cudaLaunchKernelExC(config, function, arguments);
}

cudaError_t __real_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void)
{
    const cudaError_t real = __real_cudaGetLastError(), planned = last_error;
    last_error = (cudaError_t)atomic_load(&sticky_error);
    return planned != cudaSuccess ? planned : real;
}

cudaError_t __real_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void)
{
    return last_error != cudaSuccess ? last_error : __real_cudaPeekAtLastError();
}
