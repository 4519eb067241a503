/*
 * memory_limit.h - how much memory of the host this process may use: all that there is, or what
 * its control groups allow (a container's limit, MemoryMax= of its unit).
 *
 * Memory beyond is not refused when it is asked for: the process is killed when it writes there.
 * Versions 1 and 2 of the groups' file systems are read (cgroups(7)), with every group above the
 * process's own that can be seen from here.
 */
#ifndef SERVER_DEVICE_MEMORY_MEMORY_LIMIT_H
#define SERVER_DEVICE_MEMORY_MEMORY_LIMIT_H

#include <stdint.h>

/* In bytes; 0: it cannot be told. */
uint64_t memory_limit_bytes(void);

/* What the groups alone allow; UINT64_MAX: all. `root` is where /proc and /sys are looked for, ""
 * outside of tests. */
uint64_t memory_limit_of_groups(const char *root);

#endif
