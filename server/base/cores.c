#include "server/base/cores.h"

#include <sched.h>
#include <unistd.h>

uint32_t cores_usable(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    /* The machine has more cores than a cpu_set_t names. */
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (uint32_t)cores : 1;
}
