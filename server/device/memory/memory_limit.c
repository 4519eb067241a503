#include "server/device/memory/memory_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The limit of one group. Without a limit, version 2 writes "max", version 1 a number near 2^63. */
static uint64_t read_cgroup_limit(const char *root, const char *mount, const char *group,
                                  const char *file)
{
    char path[2 * PATH_MAX];
    uint64_t bytes;
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, mount, group, file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return UINT64_MAX;
    if (fscanf(stream, "%" SCNu64, &bytes) != 1)
        bytes = UINT64_MAX;
    fclose(stream);
    return bytes;
}

/* The lowest limit of `group` and of the groups above it, up to the root of the mount. In a
 * container the path of the group may be the host's, but the root of the mount exists there too. */
static uint64_t read_cgroup_limits(const char *root, const char *mount, char *group,
                                   const char *file)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t bytes = read_cgroup_limit(root, mount, group, file);
        char *slash = strrchr(group, '/');
        if (bytes < least)
            least = bytes;
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* Whether "memory" is one of the names in "cpu,memory:...". */
static bool names_memory(const char *controllers)
{
    static const char name[] = "memory";
    const size_t length = sizeof name - 1;
    for (;;) {
        if (strncmp(controllers, name, length) == 0 &&
            (controllers[length] == ':' || controllers[length] == ','))
            return true;
        controllers += strcspn(controllers, ",:");
        if (*controllers != ',')
            return false;
        controllers++;
    }
}

uint64_t memory_limit_of_cgroups(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return least;
    /* "0::/system.slice/gemmd.service" of version 2, "4:memory:/docker/..." of version 1 */
    while (fgets(line, sizeof line, stream) != NULL) {
        const char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        uint64_t bytes = UINT64_MAX;
        if (group == NULL)
            continue;
        group++;
        group[strcspn(group, "\n")] = '\0';
        if (controllers[1] == ':')
            bytes = read_cgroup_limits(root, "", group, "memory.max");
        else if (names_memory(controllers + 1))
            bytes = read_cgroup_limits(root, "/memory", group, "memory.limit_in_bytes");
        if (bytes < least)
            least = bytes;
    }
    fclose(stream);
    return least;
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
