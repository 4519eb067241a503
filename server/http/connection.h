/*
 * connection.h - one client connection, as its I/O thread and the watchdog see it.
 *
 * libmicrohttpd times out only connections that are silent; a client that sends a byte a
 * second lives forever. So each connection notes what it is waiting for and since when, and
 * the watchdog (main thread) ends those that wait too long. It also ends those whose client has
 * left: libmicrohttpd's epoll is edge-triggered and misses an end that came with the last bytes.
 */
#ifndef SERVER_HTTP_CONNECTION_H
#define SERVER_HTTP_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct daemon;
struct fault;
struct io_thread;

enum connection_phase {
    CONNECTION_IDLE,    /* between requests */
    CONNECTION_HEADERS, /* new, or a request line has arrived */
    CONNECTION_BODY,    /* the body is arriving */
    CONNECTION_WORKING, /* queued or computing: the request's own deadline rules */
    CONNECTION_SENDING, /* the answer is leaving */
    CONNECTION_EXPIRED, /* ended by the watchdog: too slow */
    CONNECTION_GONE     /* ended by the watchdog: the client has left */
};

struct connection {
    struct connection *next, *previous; /* the I/O thread's list, under its lock */
    struct io_thread *thread;
    int fd;
    char peer[64];                        /* for the log */
    struct sockaddr_storage peer_address; /* family AF_UNSPEC if it was not counted */

    /* Written by the I/O thread, read by the watchdog. */
    _Atomic enum connection_phase phase;
    _Atomic uint64_t since_ns;    /* when the phase began */
    _Atomic uint64_t moved_bytes; /* received or sent in this phase, as far as known */
    _Atomic uint64_t deadline_ns; /* the request's own; 0: none */

    uint64_t end_seen_ns; /* the watchdog's: when it first saw the client's end; 0: it has not */

    bool linger; /* refused with the body unread: keep reading for a while after the close */
};

/* Moves to a phase, unless the watchdog has ended the connection: then false. */
bool connection_enter(struct connection *connection, enum connection_phase phase, uint64_t now_ns);

/* Writes an answer to `fault` straight to the socket, once, best effort: libmicrohttpd cannot
 * answer in the middle of an upload. The connection must be closed afterwards. */
void connection_send_fault(int fd, const struct fault *fault);

/* Ends a connection that has been in its phase for too long (a late request gets a 408 or 504), or
 * whose client left in the middle of a request: the socket is shut down. Called by the watchdog
 * under the I/O thread's lock. */
void connection_check(struct connection *connection, struct daemon *daemon, uint64_t now_ns);

#endif
