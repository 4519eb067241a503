/*
 * listen.h - listening sockets: bound to an address, or inherited from the process that started the
 * daemon.
 *
 * The sockets are non-blocking stream sockets that are closed on exec. All functions are called by
 * the main thread, except listen_peer_text, which any thread may call.
 */
#ifndef SERVER_NET_LISTEN_H
#define SERVER_NET_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/error.h"
#include "server/base/address.h"

enum { LISTEN_NAME_MAX = 64, LISTEN_PEER_MAX = 64 };

struct listener {
    int fd;
    bool is_unix;
    bool inherited; /* another process owns the file of a Unix socket, and this one leaves it */
    const char *configured; /* the address in --listen; NULL: a service manager opened the socket */
    char address[ADDRESS_TEXT_MAX]; /* as bound, with the actual port; or "unix:..." */
    char name[LISTEN_NAME_MAX];     /* of an inherited socket (LISTEN_FDNAMES), or "" */
    dev_t device;                   /* `device` and `inode` identify the file of a Unix socket */
    ino_t inode;
};

/* Who may connect to a Unix socket: the permissions and the group of its file. */
struct listen_access {
    mode_t mode; /* 0: as the umask leaves it */
    gid_t group;
    bool has_group; /* false: the system chooses the group */
};

/* Reads the options --socket-mode and --socket-group. `group` is a name or a number; NULL: the
 * system chooses. GEMMD_ERR_USAGE: there is no such group. */
enum gemmd_error listen_access_find(uint32_t mode, const char *group, struct listen_access *access,
                                    struct fault *fault);
/* Gives the file of a Unix socket its permissions and its group. Does nothing for another socket,
 * or if `access` leaves both to the system. */
enum gemmd_error listen_permit(const struct listener *listener, const struct listen_access *access,
                               struct fault *fault);

/* Binds a socket to an address, which is borrowed, and listens. The file of a Unix socket on which
 * no process listens is replaced. Any other file of that name is an error. Nobody can connect
 * before the file has the permissions of `access`. */
enum gemmd_error listen_open(const char *address, const struct listen_access *access,
                             struct listener *listener, struct fault *fault);
/* Closes a socket, and removes the file of a Unix socket if the file is still this socket's. */
void listen_close(struct listener *listener);

/* Makes this process the owner of the file of an inherited Unix socket. */
void listen_own(struct listener *listener);

/* Whether other hosts may be able to connect to the socket. */
bool listen_is_public(const struct listener *listener);

/* Takes over the sockets that the starter of the process passed (inherited_sockets.h). Called once.
 * Each socket must be a listening stream socket. `*count` is the number of sockets that were taken
 * over, after a failure too. */
enum gemmd_error listen_inherit(struct listener *listeners, uint32_t capacity, uint32_t *count,
                                struct fault *fault);

/* Writes the peer of an accepted connection, for the log: "192.0.2.1:40312", "[2001:db8::1]:40312",
 * "unix:pid=1,uid=0", or "unknown". A capacity of LISTEN_PEER_MAX always suffices. */
void listen_peer_text(int fd, char *out, uint64_t capacity);

#endif
