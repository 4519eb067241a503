/*
 * connection.h - one client connection. Only its I/O thread touches it, but for its making.
 *
 * libmicrohttpd times out only connections that are silent; a client that sends a byte a
 * second lives forever. So each connection notes what it is waiting for and since when, and
 * connection_check ends those that wait too long. It also ends those whose client has left:
 * libmicrohttpd's epoll is edge-triggered and misses an end that came with the last bytes.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proto/error.h"
#include "server/base/inbox.h"
#include "server/http/request_id.h"

struct http_server;
struct io_thread;
struct request;
struct shm_offer;

enum connection_phase {
    CONNECTION_IDLE,    /* between requests */
    CONNECTION_HEADERS, /* new, or a request line has arrived */
    CONNECTION_BODY,    /* the body is arriving */
    CONNECTION_WORKING, /* queued or computing: the request's own deadline rules */
    CONNECTION_SENDING, /* the answer is leaving */
    CONNECTION_EXPIRED, /* ended by connection_check: too slow */
    CONNECTION_GONE     /* ended by us: the client has left */
};

struct connection {
    struct connection *next, *previous; /* the I/O thread's list */
    struct connection *next_arriving;   /* its list of those given to libmicrohttpd */
    struct io_thread *thread;
    struct inbox_message arrival; /* on its way to the thread */
    int fd;
    char peer[64]; /* for the log */
    enum { USER_NOT_ASKED, USER_KNOWN, USER_UNKNOWN } user_state;
    uid_t user; /* at the other end; see connection_user */
    struct sockaddr_storage peer_address;
    socklen_t peer_length;

    enum connection_phase phase;
    uint64_t since_ns;    /* when the phase began */
    uint64_t moved_bytes; /* received in this phase */
    uint64_t deadline_ns; /* the request's own; 0: none */

    struct request *request;   /* what it is in the middle of; NULL: nothing that is known yet */
    enum gemmd_error ended_by; /* why the daemon ended it in the middle; GEMMD_OK: it did not */

    struct shm_offer *memory; /* that its client shares with it, or why not; NULL: none */
    bool bulk;                /* has one of --bulk-connections */
    bool linger; /* refused with the body unread: keep reading for a while after the close */
};

/* Moves to a phase, unless the connection was ended by us: then false. */
bool connection_enter(struct connection *connection, enum connection_phase phase, uint64_t now_ns);

/* Writes an answer to `fault` straight to the socket, once, best effort: libmicrohttpd cannot
 * answer in the middle of an upload. The connection must be closed afterwards. Returns the bytes of
 * the answer's document. `request_id` is not empty. */
uint64_t connection_send_fault(int fd, const struct fault *fault, const char *request_id);

/* The id of the request that a connection is in the middle of, or a new one, in `scratch`, if it is
 * in the middle of nothing. */
const char *connection_request_id(struct connection *connection, char scratch[REQUEST_ID_MAX + 1]);

/* The user of this host at the other end (peer_user.h), asked for once. */
bool connection_user(struct connection *connection, uid_t *user);

/* Whether the client has ended its side and everything that it sent was read. */
bool connection_has_ended(const struct connection *connection);

/* Ends a connection whose client has left: the socket is shut down, for libmicrohttpd to see. */
void connection_abandon(struct connection *connection);

/* Ends a connection that has been in its phase for too long (a late request gets a 408 or 504), or
 * whose client left in the middle of a request: the socket is shut down, which libmicrohttpd sees
 * next. */
void connection_check(struct connection *connection, const struct http_server *server,
                      uint64_t now_ns);

#endif
