/*
 * memory_needs.h - how much memory the daemon may use with given options, so that an operator can
 * set the limit of a service or a container (MemoryMax=, resources.limits.memory).
 *
 * deploy/systemd/README.md explains the parts. The sum is an upper bound for what the process
 * itself may hold (VmHWM). The buffers of sockets belong to the kernel and are not included.
 */
#ifndef SERVER_MEMORY_NEEDS_H
#define SERVER_MEMORY_NEEDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "server/config/config.h"

/* Bytes of host memory, except `device` and `tensors`, which are GPU memory on a GPU. */
struct memory_needs {
    uint64_t pinned, device, tensors, jobs, shared, connections, json, program;
    uint64_t host, gpu; /* the sums */
};

/* Computes the needs on a GPU or on the CPU. `device` is 0 on a GPU if --device-bytes is 0, since
 * half of the GPU's free memory is not known before the start. */
struct memory_needs memory_needs(const struct config *config, bool on_gpu);
/* Prints the needs on each backend that the options allow. */
void memory_needs_print(const struct config *config, FILE *out);

#endif
