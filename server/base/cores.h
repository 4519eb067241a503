/* cores.h - the cores that this process may use. */
#ifndef SERVER_BASE_CORES_H
#define SERVER_BASE_CORES_H

#include <stdint.h>

/* The number of cores that the calling thread may run on: those of its CPU affinity (taskset, a
 * cgroup's cpuset), which can be fewer than the machine has. At least 1. Any thread may call. */
uint32_t cores_usable(void);

#endif
