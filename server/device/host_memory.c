#include "server/device/host_memory.h"

#include <inttypes.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/base/cores.h"
#include "server/device/device_ops.h"
#include "server/device/device_shm.h"

enum {
    THREADS_MAX = 4,     /* together they allocate pages faster than memory can be written */
    ALIGNMENT = 2 << 20, /* the size of large pages */
    PAGE_BYTES = 4096,
};

struct range {
    volatile unsigned char *first;
    uint64_t bytes;
};

struct host_memory {
    enum gemm_backend backend;
    void *mapping;
    uint64_t mapping_bytes;
    unsigned char *memory; /* aligned, in the mapping */
    uint64_t bytes;
    bool pinned;
    struct range ranges[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    uint32_t thread_count;
};

static void *write_pages(void *argument)
{
    const struct range *range = argument;
    for (uint64_t i = 0; i < range->bytes; i += PAGE_BYTES)
        range->first[i] = 0;
    return NULL;
}

/* Starts the threads that have the pages allocated. If a thread does not start, its pages are
 * allocated when they are pinned. */
static void start_threads(struct host_memory *host)
{
    const uint32_t half = cores_usable() / 2;
    const uint32_t wanted = half < 1 ? 1 : half > THREADS_MAX ? THREADS_MAX : half;
    const uint64_t each = (host->bytes / wanted + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    for (uint64_t at = 0; at < host->bytes; at += each) {
        struct range *range = &host->ranges[host->thread_count];
        range->first = host->memory + at;
        range->bytes = host->bytes - at < each ? host->bytes - at : each;
        if (pthread_create(&host->threads[host->thread_count], NULL, write_pages, range) != 0)
            return;
        host->thread_count++;
    }
}

static void join_threads(struct host_memory *host)
{
    while (host->thread_count > 0)
        pthread_join(host->threads[--host->thread_count], NULL);
}

/* Asks the system to put the pages on the nodes. A failure is not reported, because on a host with
 * one node copies are as fast without the choice. */
static void choose_nodes(void *memory, uint64_t bytes, uint64_t nodes)
{
    const unsigned long mask = nodes;
    const int policy = (nodes & (nodes - 1)) == 0 ? MPOL_PREFERRED : MPOL_INTERLEAVE;
    if (nodes != 0) /* the kernel reads one bit less than it is told */
        (void)syscall(SYS_mbind, memory, bytes, policy, &mask, 8 * sizeof mask + 1, 0);
}

struct host_memory *host_memory_begin(enum gemm_backend backend, uint64_t bytes, uint64_t nodes,
                                      struct fault *fault)
{
    const bool lazy = backend != GEMM_BACKEND_CUDA;
    struct host_memory *host = calloc(1, sizeof *host);
    void *mapping = MAP_FAILED;
    if (host != NULL && bytes <= UINT64_MAX - ALIGNMENT)
        mapping = mmap(NULL, bytes + ALIGNMENT, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (lazy ? MAP_NORESERVE : 0), -1, 0);
    if (mapping == MAP_FAILED) {
        free(host);
        fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "pinned-bytes",
                  "the system does not give %" PRIu64 " bytes of memory (--pinned-bytes)", bytes);
        return NULL;
    }
    *host = (struct host_memory){
        .backend = backend,
        .mapping = mapping,
        .mapping_bytes = bytes + ALIGNMENT,
        .memory = (unsigned char *)mapping + (ALIGNMENT - (uintptr_t)mapping % ALIGNMENT),
        .bytes = bytes,
    };
    choose_nodes(host->memory, bytes, nodes);
    if (!lazy) {
        (void)madvise(host->memory, bytes, MADV_HUGEPAGE); /* if the system has large pages */
        start_threads(host);
    }
    return host;
}

void *host_memory_finish(struct host_memory *host, struct fault *fault)
{
    struct fault why = {.detail = ""};
    join_threads(host);
    if (host->backend != GEMM_BACKEND_CUDA)
        return host->memory;
    if (device_cuda_pin(host->memory, host->bytes, &why) != GEMMD_OK) {
        fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, "pinned-bytes",
                  "%" PRIu64 " bytes of host memory could not be pinned: %.300s", host->bytes,
                  why.detail);
        return NULL;
    }
    host->pinned = true;
    return host->memory;
}

void host_memory_free(struct host_memory *host)
{
    if (host == NULL)
        return;
    join_threads(host);
    if (host->pinned)
        device_cuda_unpin(host->memory);
    munmap(host->mapping, host->mapping_bytes);
    free(host);
}

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
