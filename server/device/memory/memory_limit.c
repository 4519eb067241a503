#include "server/device/memory/memory_limit.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* The number after "name " or "name:" at the beginning of a line of a file, in the file's unit;
 * `missing` if there is none. */
static uint64_t read_line(const char *path, const char *name, uint64_t missing)
{
    char line[128];
    const size_t length = strlen(name);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return missing;
    while (fgets(line, sizeof line, stream) != NULL)
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == ':')) {
            missing = strtoull(line + length + 1, NULL, 10);
            break;
        }
    fclose(stream);
    return missing;
}

/* The limit of a group without what its processes use. Pages of files that nobody has used lately
 * do not count as used. */
static uint64_t read_available(const char *folder, bool is_version_1)
{
    char path[3 * PATH_MAX];
    int64_t used[2];
    const uint64_t limit = read_bytes(folder, is_version_1);
    const char *file = is_version_1 ? "memory.usage_in_bytes" : "memory.current";
    if (limit == UINT64_MAX || cgroup_numbers(folder, file, used) == 0)
        return limit;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const uint64_t idle =
        read_line(path, is_version_1 ? "total_inactive_file" : "inactive_file", 0);
    const uint64_t needed = (uint64_t)used[0] > idle ? (uint64_t)used[0] - idle : 0;
    return limit > needed ? limit - needed : 0;
}

uint64_t memory_available_below(const char *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const uint64_t kib = read_line(path, "MemAvailable", UINT64_MAX / 1024);
    const uint64_t allowed = cgroup_least(root, "memory", read_available);
    return allowed < kib * 1024 ? allowed : kib * 1024;
}

uint64_t memory_available_bytes(void)
{
    return memory_available_below("");
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
