/*
 * host_memory.h - the memory that bodies and results lie in: host memory which a device copies from
 * and to at full speed (CUDA: pinned, and in the address space of every device).
 *
 * Most of what pinning costs is taking the pages from the system: 1 s for 2 GiB on an H100's host.
 * So that is done by threads of its own from host_memory_begin on, while the device is opened.
 * All functions are called from one thread.
 */
#ifndef SERVER_DEVICE_MEMORY_HOST_MEMORY_H
#define SERVER_DEVICE_MEMORY_HOST_MEMORY_H

#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/error.h"

struct host_memory;

/* Takes addresses for `bytes` (more than 0), and begins to take their pages. On the CPU these come
 * as they are first written. NULL if the system has no addresses. */
struct host_memory *host_memory_begin(enum gemm_backend backend, uint64_t bytes,
                                      struct fault *fault);

/* Waits for the pages and pins them; with CUDA, once the device is open. The memory, zeroed and
 * aligned to 2 MiB; or NULL if it can't be pinned. Once. */
void *host_memory_finish(struct host_memory *host, struct fault *fault);

/* At any point after host_memory_begin, and before the device is closed. NULL is allowed. */
void host_memory_free(struct host_memory *host);

#endif
