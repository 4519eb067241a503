#include "server/base/inherited_sockets.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/number.h"

/* The lines after the first of GEMMD_HANDOVER; NULL: there is no old process. */
static const char *handover_lines(void)
{
    const char *value = getenv(INHERITED_VARIABLE);
    return value == NULL ? NULL : strchr(value, '\n');
}

static uint32_t passed_by_manager(void)
{
    const char *pid_text = getenv("LISTEN_PID");
    const char *fds_text = getenv("LISTEN_FDS");
    uint64_t pid, fds;
    if (!pid_text || !fds_text || !number_u64(pid_text, &pid) || !number_u64(fds_text, &fds) ||
        pid != (uint64_t)getpid() || fds > UINT16_MAX)
        return 0;
    return (uint32_t)fds;
}

uint32_t inherited_sockets(void)
{
    const char *line = handover_lines();
    if (line == NULL)
        return passed_by_manager();
    uint32_t count = 0;
    for (; line != NULL; line = strchr(line + 1, '\n'))
        count++;
    return count;
}

uint32_t inherited_manager_sockets(void)
{
    uint32_t count = 0;
    const uint32_t all = inherited_sockets();
    for (uint32_t i = 0; i < all; i++)
        count += inherited_is_managers(i);
    return count;
}

bool inherited_is_for(uint32_t index, const char *address)
{
    const char *line = handover_lines();
    for (; line != NULL && index > 0; index--)
        line = strchr(line + 1, '\n');
    const size_t length = strlen(address);
    return line != NULL && strcspn(line + 1, "\n") == length &&
           memcmp(line + 1, address, length) == 0;
}

bool inherited_is_managers(uint32_t index)
{
    return handover_lines() == NULL || inherited_is_for(index, "");
}

int inherited_news_fd(void)
{
    const char *value = getenv(INHERITED_VARIABLE);
    char number[16];
    uint64_t fd;
    const size_t length = value == NULL ? 0 : strcspn(value, "\n");
    if (length == 0 || length >= sizeof number)
        return -1;
    memcpy(number, value, length);
    number[length] = '\0';
    return number_u64(number, &fd) && fd <= INT_MAX ? (int)fd : -1;
}
