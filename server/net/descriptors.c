#include "server/net/descriptors.h"

#include <sys/resource.h>

/* The files that the daemon opens in addition to connections: those of the device, of listening and
 * lingering sockets and of clients' shared memory together, and those of each I/O thread. */
enum { OWN_FILES = 256, FILES_PER_THREAD = 8 };

static uint64_t own_files(uint32_t io_threads)
{
    return OWN_FILES + FILES_PER_THREAD * (uint64_t)io_threads;
}

uint32_t descriptors_suffice_for(uint64_t files, uint32_t connections, uint32_t io_threads)
{
    const uint64_t own = own_files(io_threads);
    /* The daemon rarely opens all of its own files. If there are few files, half of them are left
     * to connections. */
    const uint64_t room = files >= 2 * own ? files - own : files / 2;
    if (room >= connections)
        return connections;
    return room > 1 ? (uint32_t)room : 1;
}

uint64_t descriptors_raise(uint32_t connections, uint32_t io_threads)
{
    const rlim_t needed = connections + own_files(io_threads);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UINT64_MAX;
    if (limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max) {
        const rlim_t before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            return before;
    }
    return limit.rlim_cur;
}
