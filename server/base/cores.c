#include "server/base/cores.h"

#include <sched.h>
#include <unistd.h>

#include "server/base/cgroup.h"

static uint32_t cores_of_affinity(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    /* The machine has more cores than a cpu_set_t names. */
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (uint32_t)cores : 1;
}

/* The quota of one group in cores, rounded up. A quota is the time that the group's threads may run
 * together in each period. Without a quota, version 2 writes "max" as the time, version 1 -1. */
static uint64_t read_quota(const char *folder, bool is_version_1)
{
    int64_t quota[2] = {0, 0}, period[2];
    if (!is_version_1)
        (void)cgroup_numbers(folder, "cpu.max", quota);
    else if (cgroup_numbers(folder, "cpu.cfs_quota_us", quota) > 0 &&
             cgroup_numbers(folder, "cpu.cfs_period_us", period) > 0)
        quota[1] = period[0];
    if (quota[0] <= 0 || quota[1] <= 0)
        return UINT64_MAX;
    return (uint64_t)quota[0] / (uint64_t)quota[1] + (quota[0] % quota[1] != 0);
}

uint64_t cores_of_cgroups(const char *root)
{
    return cgroup_least(root, "cpu", read_quota);
}

uint32_t cores_usable(void)
{
    const uint32_t cores = cores_of_affinity();
    const uint64_t quota = cores_of_cgroups("");
    return quota < cores ? (uint32_t)quota : cores;
}
