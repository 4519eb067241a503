#include "server/net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/number.h"
#include "server/base/address.h"
#include "server/base/inherited_sockets.h"

/* Connections that wait to be accepted, at most, if the system allows as many (somaxconn). */
enum { BACKLOG = 1024 };

static enum gemmd_error io_fault(struct fault *fault, const char *what, const char *address)
{
    return fault_set(fault, GEMMD_ERR_IO, "listen", "cannot %s %.120s: %s", what, address,
                     strerror(errno));
}

/* Removes the file of a Unix socket that a crashed daemon has left behind. Only a connection
 * attempt tells whether a process still listens on it. */
static enum gemmd_error clear_path(const char *path, const struct sockaddr_storage *name,
                                   socklen_t length, struct fault *fault)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? GEMMD_OK : io_fault(fault, "examine", path);
    if (!S_ISSOCK(status.st_mode))
        return fault_set(fault, GEMMD_ERR_IO, "listen", "%.120s exists already and is not a socket",
                         path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return io_fault(fault, "open a socket for", path);
    bool stale =
        connect(probe, (const struct sockaddr *)name, length) != 0 && errno == ECONNREFUSED;
    close(probe);
    if (!stale)
        return fault_set(fault, GEMMD_ERR_IO, "listen",
                         "%.120s is in use: another process listens on it", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return io_fault(fault, "remove the stale socket", path);
    return GEMMD_OK;
}

/* Opens a socket for an address that is written as `text`, and sets its options. */
static enum gemmd_error open_socket(const char *text, sa_family_t family, int *out,
                                    struct fault *fault)
{
    const int on = 1;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    enum gemmd_error error = GEMMD_OK;
    if (fd < 0)
        return io_fault(fault, "open a socket for", text);
    if (family != AF_UNIX && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        error = io_fault(fault, "reuse", text);
    else if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
        error = io_fault(fault, "restrict to IPv6 on", text);
    if (error == GEMMD_OK)
        *out = fd;
    else
        close(fd);
    return error;
}

enum gemmd_error listen_access_find(uint32_t mode, const char *group, struct listen_access *access,
                                    struct fault *fault)
{
    *access = (struct listen_access){.mode = (mode_t)mode};
    if (group == NULL)
        return GEMMD_OK;
    const struct group *entry = getgrnam(group);
    uint64_t number;
    if (entry != NULL)
        access->group = entry->gr_gid;
    else if (number_u64(group, &number) && number < UINT32_MAX)
        access->group = (gid_t)number;
    else
        return fault_set(fault, GEMMD_ERR_USAGE, "socket-group", "there is no group %.80s", group);
    access->has_group = true;
    return GEMMD_OK;
}

/* The file is changed through a descriptor, so that nobody can put a link to another file in its
 * place: chmod follows links. */
enum gemmd_error listen_permit(const struct listener *listener, const struct listen_access *access,
                               struct fault *fault)
{
    const char *path = listener->address + strlen("unix:");
    char file[32];
    struct stat status;
    enum gemmd_error error = GEMMD_OK;
    if (!listener->is_unix || path[0] == '@' || (access->mode == 0 && !access->has_group))
        return GEMMD_OK;
    const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return io_fault(fault, "set the permissions of", path);
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode))
        error = fault_set(fault, GEMMD_ERR_IO, "listen", "%.120s is not a socket any more", path);
    else if (access->has_group && fchownat(fd, "", (uid_t)-1, access->group, AT_EMPTY_PATH) != 0)
        error = fault_set(fault, GEMMD_ERR_IO, "socket-group", "cannot set the group of %.120s: %s",
                          path, strerror(errno));
    else if (access->mode != 0 && chmod(file, access->mode) != 0)
        error = fault_set(fault, GEMMD_ERR_IO, "socket-mode",
                          "cannot set the permissions of %.120s: %s", path, strerror(errno));
    close(fd);
    return error;
}

enum gemmd_error listen_open(const char *text, const struct listen_access *access,
                             struct listener *listener, struct fault *fault)
{
    int fd = -1;
    struct address address;
    struct sockaddr_storage name = {0};
    socklen_t length;
    memset(listener, 0, sizeof(*listener));
    listener->fd = -1;

    enum gemmd_error error = address_parse(text, &address, fault);
    if (error == GEMMD_OK)
        error = address_resolve(&address, &name, &length, fault);
    bool has_file = address.is_unix && address.path[0] != '@';
    if (error == GEMMD_OK && has_file)
        error = clear_path(address.path, &name, length, fault);
    if (error == GEMMD_OK)
        error = open_socket(text, name.ss_family, &fd, fault);
    if (error != GEMMD_OK)
        return error;

    if (bind(fd, (const struct sockaddr *)&name, length) != 0) {
        error = io_fault(fault, "bind", text);
        goto close_socket;
    }
    struct stat status;
    if (has_file && lstat(address.path, &status) == 0) {
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
    }
    listener->is_unix = address.is_unix;
    if (address.is_unix)
        address_text(&name, length, listener->address, sizeof(listener->address));
    error = listen_permit(listener, access, fault);
    if (error != GEMMD_OK)
        goto remove_file;
    length = sizeof(name);
    if (listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)&name, &length) != 0) {
        error = io_fault(fault, "listen on", text);
        goto remove_file;
    }
    listener->fd = fd;
    listener->configured = text;
    address_text(&name, length, listener->address, sizeof(listener->address));
    return GEMMD_OK;

remove_file:
    if (has_file)
        unlink(address.path);
close_socket:
    close(fd);
    return error;
}

void listen_own(struct listener *listener)
{
    struct stat status;
    listener->inherited = false;
    if (listener->is_unix && lstat(listener->address + strlen("unix:"), &status) == 0) {
        listener->device = status.st_dev;
        listener->inode = status.st_ino;
    }
}

void listen_close(struct listener *listener)
{
    if (listener->fd < 0)
        return;
    const char *path = listener->address + strlen("unix:");
    struct stat status;
    if (listener->is_unix && !listener->inherited && path[0] != '@' && lstat(path, &status) == 0 &&
        status.st_dev == listener->device && status.st_ino == listener->inode)
        unlink(path);
    close(listener->fd);
    listener->fd = -1;
}

bool listen_is_public(const struct listener *listener)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);
    return getsockname(listener->fd, (struct sockaddr *)&name, &length) == 0 &&
           address_is_public(&name);
}

void listen_peer_text(int fd, char *out, uint64_t capacity)
{
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &length) != 0) {
        snprintf(out, capacity, "unknown");
        return;
    }
    struct ucred peer;
    socklen_t peer_length = sizeof(peer);
    if (name.ss_family == AF_UNIX &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_length) == 0)
        snprintf(out, capacity, "unix:pid=%d,uid=%u", (int)peer.pid, (unsigned)peer.uid);
    else
        address_text(&name, length, out, capacity);
}

/* ---- sockets that the starter of the process passed: the protocol of sd_listen_fds(3) ---- */

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
