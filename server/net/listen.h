/*
 * listen.h - listening sockets: by address, or inherited from whoever started the daemon.
 *
 * Sockets are non-blocking stream sockets, closed on exec. All functions are called by the main
 * thread, but for listen_peer_text (any thread).
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
    bool inherited;                 /* the starter's: the file of a Unix socket is left alone */
    char address[ADDRESS_TEXT_MAX]; /* as bound: with the real port, "unix:..." */
    char name[LISTEN_NAME_MAX];     /* of an inherited one (LISTEN_FDNAMES), or "" */
    dev_t device;                   /* of a Unix socket's own file, to unlink no other */
    ino_t inode;
};

/* Binds and listens. A Unix socket file that nobody listens on any more is replaced; anything else
 * in its place is an error. */
enum gemmd_error listen_open(const char *address, struct listener *listener, struct fault *fault);
/* Closes; a Unix socket's file goes too if it is still this socket's own. */
void listen_close(struct listener *listener);

/* Whether others than this host's own programs may reach it. */
bool listen_is_public(const struct listener *listener);

/* Takes over the sockets that the starter of the process passed (inherited_sockets.h), once. Every
 * one must be a listening stream socket. After a failure `*count`
 * says how many were taken. */
enum gemmd_error listen_inherit(struct listener *listeners, uint32_t capacity, uint32_t *count,
                                struct fault *fault);

/* Who is at the other end of an accepted connection, for the log: "192.0.2.1:40312",
 * "[2001:db8::1]:40312", "unix:pid=1,uid=0"; "unknown" if it can't be told. LISTEN_PEER_MAX is
 * always enough. */
void listen_peer_text(int fd, char *out, uint64_t capacity);

#endif
