#include "server/device/memory/memory_limit.h"

#include <unistd.h>

#include "server/base/cgroup.h"

/* Without a limit, version 2 writes "max", version 1 a number near 2^63. */
static uint64_t read_bytes(const char *folder, bool is_version_1)
{
    const char *file = is_version_1 ? "memory.limit_in_bytes" : "memory.max";
    int64_t bytes[2];
    return cgroup_numbers(folder, file, bytes) > 0 ? (uint64_t)bytes[0] : UINT64_MAX;
}

uint64_t memory_limit_of_cgroups(const char *root)
{
    return cgroup_least(root, "memory", read_bytes);
}

uint64_t memory_limit_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t allowed = memory_limit_of_cgroups("");
    uint64_t there = UINT64_MAX;
    if (pages > 0 && page_bytes > 0)
        there = (uint64_t)pages * (uint64_t)page_bytes;
    if (allowed < there)
        there = allowed;
    return there == UINT64_MAX ? 0 : there;
}
