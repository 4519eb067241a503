/*
 * memory_limit.h - how much memory of the host this process may use: all of it, or as much as the
 * process's control groups allow (cgroup.h).
 *
 * Allocating more memory than the limit succeeds, but the system kills the process when it writes
 * to that memory.
 */
#ifndef SERVER_DEVICE_MEMORY_MEMORY_LIMIT_H
#define SERVER_DEVICE_MEMORY_MEMORY_LIMIT_H

#include <stdint.h>

/* The memory in bytes; 0: unknown. */
uint64_t memory_limit_bytes(void);

/* The limit of the control groups alone; UINT64_MAX: they have none. /proc and /sys are read below
 * `root`, which is "" except in tests. */
uint64_t memory_limit_of_cgroups(const char *root);

/* How much of this memory the process may still allocate without anything being swapped out or
 * killed, as the system estimates it. A huge number: unknown. */
uint64_t memory_available_bytes(void);

/* The same, of files below `root`. */
uint64_t memory_available_below(const char *root);

#endif
