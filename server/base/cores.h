/* cores.h - the cores that this process may use. */
#ifndef SERVER_BASE_CORES_H
#define SERVER_BASE_CORES_H

#include <stdint.h>

/* The number of cores that the calling thread may run on, which can be fewer than the machine has:
 * those of its CPU affinity (taskset, a cgroup's cpuset), or as many as the quotas of the process's
 * control groups are worth if these are fewer. More threads than a quota is worth use up the quota
 * early in each period, and then none of them runs until the next period. At least 1. Any thread
 * may call. */
uint32_t cores_usable(void);

/* The lowest quota of the control groups alone, in cores and rounded up; UINT64_MAX: they have
 * none. /proc and /sys are read below `root`, which is "" except in tests. */
uint64_t cores_of_cgroups(const char *root);

#endif
