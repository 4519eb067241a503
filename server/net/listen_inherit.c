/* Sockets that the starter of the process passed: the protocol of sd_listen_fds(3). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/number.h"
#include "server/base/address.h"
#include "server/base/inherited_sockets.h"
#include "server/net/listen.h"

enum { FIRST_FD = 3 };

static enum gemmd_error listener_inherit(int fd, struct listener *listener, struct fault *fault)
{
    int type = 0, accepting = 0;
    socklen_t length = sizeof(int), name_length = sizeof(struct sockaddr_storage);
    struct sockaddr_storage name = {0};
    int status_flags = fcntl(fd, F_GETFL), fd_flags = fcntl(fd, F_GETFD);

    if (status_flags < 0 || fd_flags < 0)
        return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                         "LISTEN_FDS promises file descriptor %d, which is not open", fd);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &length) != 0 || !accepting)
        return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                         "file descriptor %d of LISTEN_FDS is not a listening stream socket", fd);
    if (fcntl(fd, F_SETFL, status_flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, fd_flags | FD_CLOEXEC) != 0 ||
        getsockname(fd, (struct sockaddr *)&name, &name_length) != 0)
        return fault_set(fault, GEMMD_ERR_IO, "listen", "file descriptor %d of LISTEN_FDS: %s", fd,
                         strerror(errno));
    listener->fd = fd;
    listener->inherited = true;
    listener->is_unix = name.ss_family == AF_UNIX;
    address_text(&name, name_length, listener->address, sizeof(listener->address));
    return GEMMD_OK;
}

enum gemmd_error listen_inherit(struct listener *listeners, uint32_t capacity, uint32_t *count,
                                struct fault *fault)
{
    const uint32_t promised = inherited_sockets();
    const char *names = getenv("LISTEN_FDNAMES");
    *count = 0;
    if (promised > capacity)
        return fault_set(fault, GEMMD_ERR_USAGE, "listen",
                         "LISTEN_FDS passes %u sockets; %u are taken at most", promised, capacity);
    for (uint32_t i = 0; i < promised; i++) {
        struct listener *listener = &listeners[i];
        memset(listener, 0, sizeof(*listener));
        enum gemmd_error error = listener_inherit(FIRST_FD + (int)i, listener, fault);
        if (error != GEMMD_OK)
            return error;
        if (names) {
            size_t length = strcspn(names, ":");
            memcpy(listener->name, names, length < LISTEN_NAME_MAX ? length : LISTEN_NAME_MAX - 1);
            names = names[length] == ':' ? names + length + 1 : NULL;
        }
        *count = i + 1;
    }
    return GEMMD_OK;
}
