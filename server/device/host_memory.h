/*
 * host_memory.h - the host memory for bodies and results, which a device copies from and to at full
 * speed. On CUDA the memory is pinned, and mapped into the address space of every device.
 *
 * Most of the time that pinning takes is the time in which the system allocates the pages: 1 s for
 * 2 GiB on an H100's host. Separate threads have the pages allocated from host_memory_begin on,
 * while the device is being opened. All functions are called from one thread.
 */
#ifndef SERVER_DEVICE_HOST_MEMORY_H
#define SERVER_DEVICE_HOST_MEMORY_H

#include <stdint.h>

#include "kernels/gemm.h"
#include "proto/error.h"

struct host_memory;

/* Reserves addresses for `bytes` (more than 0) of memory, and starts to allocate the pages. On the
 * CPU, pages are allocated when they are first written. `nodes` are the NUMA nodes of the host
 * (bit i: node i) on which the pages should lie; the pages are put on several nodes in turn. 0: the
 * system chooses the nodes. If the system allows no choice, or if a node is full, pages lie on
 * other nodes. NULL: the system has no addresses. */
struct host_memory *host_memory_begin(enum gemm_backend backend, uint64_t bytes, uint64_t nodes,
                                      struct fault *fault);

/* Waits until the pages are allocated, and pins them. On CUDA the device must be open. Returns the
 * memory, zeroed and aligned to 2 MiB; NULL: the memory cannot be pinned. Called once. */
void *host_memory_finish(struct host_memory *host, struct fault *fault);

/* Frees the memory, whether host_memory_finish was called or not. Called before the device is
 * closed. NULL is allowed. */
void host_memory_free(struct host_memory *host);

#endif
