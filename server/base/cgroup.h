/*
 * cgroup.h - the limits that the control groups of this process set, such as those of a container
 * or of a systemd unit.
 *
 * Versions 1 and 2 of the control groups' file systems are read (cgroups(7)), for the process's own
 * group and every group above it that is visible to the process. Any thread may call.
 */
#ifndef SERVER_BASE_CGROUP_H
#define SERVER_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the limit of the group whose files lie in `folder`, as version 1 or version 2 writes it.
 * Returns UINT64_MAX if the group has no limit, or no such file. */
typedef uint64_t cgroup_read(const char *folder, bool is_version_1);

/* Returns the lowest limit of all groups, which `controller`, such as "memory", enforces;
 * UINT64_MAX: there is none. /proc and /sys are read below `root`, which is "" except in tests. */
uint64_t cgroup_least(const char *root, const char *controller, cgroup_read *read);

/* Reads the numbers that a file of a group begins with, two at most, and returns how many these
 * are: 0 if the file is missing or begins with something else, such as "max". */
int cgroup_numbers(const char *folder, const char *file, int64_t numbers[2]);

#endif
