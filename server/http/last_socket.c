#include "server/http/last_socket.h"

#include <stddef.h>
#include <sys/socket.h>

/* A thread's own, because recv has no argument that could carry it. */
static _Thread_local int last = -1;

int last_socket(void)
{
    return last;
}

void last_socket_set(int fd)
{
    last = fd;
}

/* POSIX: recv is recvfrom without an address, send is sendto without one. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
    last = fd;
    return recvfrom(fd, buffer, length, flags, NULL, NULL);
}

__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t length,
                                                    int flags)
{
    last = fd;
    return sendto(fd, bytes, length, flags, NULL, 0);
}
