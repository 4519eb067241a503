#include "server/http/new_connections.h"

#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/http/connection.h"

/* Events that one call of epoll_wait returns at most. */
enum { COLLECT_MAX = 64 };

bool new_connections_open(struct new_connections *new_connections)
{
    new_connections->count = 0;
    new_connections->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return new_connections->epoll_fd >= 0;
}

void new_connections_close(struct new_connections *new_connections)
{
    close(new_connections->epoll_fd);
}

bool new_connections_add(struct new_connections *new_connections, struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(new_connections->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        return false;
    new_connections->count++;
    return true;
}

int new_connections_collect(struct new_connections *new_connections, struct connection *ready[],
                            int capacity)
{
    struct epoll_event events[COLLECT_MAX];
    if (new_connections->count == 0)
        return 0;
    int count = epoll_wait(new_connections->epoll_fd, events,
                           capacity < COLLECT_MAX ? capacity : COLLECT_MAX, 0);
    for (int i = 0; i < count; i++) {
        ready[i] = events[i].data.ptr;
        (void)epoll_ctl(new_connections->epoll_fd, EPOLL_CTL_DEL, ready[i]->fd, NULL);
        new_connections->count--;
    }
    return count < 0 ? 0 : count;
}

bool new_connections_can_be_request(const char *head, uint64_t length)
{
    const char *p = head, *end = head + length;
    while (p < end && (*p == '\r' || *p == '\n'))
        p++;
    const char *method = p;
    while (p<end && * p> ' ' && *p <= '~')
        p++;
    return p == end || (p > method && *p == ' ');
}

uint64_t new_connections_announced_bytes(const char *head, uint64_t length)
{
    static const char name[] = "\nContent-Length:";
    const char *end = head + length;
    for (const char *line = head; (line = memchr(line, '\n', (size_t)(end - line))) != NULL;
         line++) {
        if ((size_t)(end - line) < sizeof name || line[1] == '\r' || line[1] == '\n')
            return 0; /* the head is incomplete, or ends here */
        if (strncasecmp(line, name, sizeof name - 1) != 0)
            continue;
        uint64_t bytes = 0;
        const char *digit = line + sizeof name - 1;
        while (digit < end && *digit == ' ')
            digit++;
        for (; digit < end && *digit >= '0' && *digit <= '9' && bytes < UINT64_MAX / 100; digit++)
            bytes = bytes * 10 + (uint64_t)(*digit - '0');
        return bytes;
    }
    return 0;
}
