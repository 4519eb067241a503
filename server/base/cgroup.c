#include "server/base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

int cgroup_numbers(const char *folder, const char *file, int64_t numbers[2])
{
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return 0;
    const int found = fscanf(stream, "%" SCNd64 "%" SCNd64, &numbers[0], &numbers[1]);
    fclose(stream);
    return found < 0 ? 0 : found;
}

/* The lowest limit of `group` and of the groups above it, up to the root of the mount. In a
 * container the path of the group may be the host's, but the root of the mount exists there too. */
static uint64_t least_up_to_root(const char *root, const char *mount, char *group,
                                 cgroup_read *read)
{
    char folder[2 * PATH_MAX];
    uint64_t least = UINT64_MAX;
    for (;;) {
        snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s%s", root, mount[0] == '\0' ? "" : "/",
                 mount, group);
        const uint64_t limit = read(folder, mount[0] != '\0');
        char *slash = strrchr(group, '/');
        if (limit < least)
            least = limit;
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* Whether `name` is one of the names in "cpu,memory:...". */
static bool names_controller(const char *controllers, const char *name)
{
    const size_t length = strlen(name);
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

uint64_t cgroup_least(const char *root, const char *controller, cgroup_read *read)
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
        uint64_t limit = UINT64_MAX;
        if (group == NULL)
            continue;
        group++;
        group[strcspn(group, "\n")] = '\0';
        if (controllers[1] == ':')
            limit = least_up_to_root(root, "", group, read);
        else if (names_controller(controllers + 1, controller))
            limit = least_up_to_root(root, controller, group, read);
        if (limit < least)
            least = limit;
    }
    fclose(stream);
    return least;
}
