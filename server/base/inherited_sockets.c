#include "server/base/inherited_sockets.h"

#include <stdlib.h>
#include <unistd.h>

#include "proto/number.h"

uint32_t inherited_sockets(void)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *fds_text = getenv("LISTEN_FDS");
    uint64_t pid, fds;
    if (!pid_text || !fds_text || !number_u64(pid_text, &pid) || !number_u64(fds_text, &fds) ||
        pid != (uint64_t)getpid() || fds > UINT16_MAX)
        return 0;
    return (uint32_t)fds;
}
