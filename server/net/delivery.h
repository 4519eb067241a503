/*
 * delivery.h - whether a body or an answer moves fast enough (--min-body-rate, --min-answer-rate),
 * and how much of what was written to a socket the peer has received.
 *
 * libmicrohttpd does not tell how much of an answer was sent, so the system is asked: TCP counts
 * the bytes that the peer has acknowledged. A Unix socket tells only how many bytes are
 * outstanding, so over a Unix socket the bytes that a client has received are estimated from looks
 * at that number. The estimate is at most a fifth too high for a slow client, and far too low for a
 * fast one, so no client has to be faster than DELIVERY_UNIX_RATE. The system is asked only about
 * answers that are not small, or that have been sent for a while; a small answer costs no system
 * call.
 *
 * Times are of the monotonic clock in nanoseconds, rates are averages since `since_ns`. Any thread,
 * but one thread at a time for a struct delivery.
 */
#ifndef SERVER_NET_DELIVERY_H
#define SERVER_NET_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

/* Whether `moved` bytes until `now_ns` are fewer than `least_rate` a second. Pure. */
bool delivery_is_below(uint64_t moved, uint64_t since_ns, uint64_t now_ns, uint64_t least_rate);
/* Whether `bytes` bytes, of which `moved` were moved until `now_ns`, cannot be complete by
 * `until_ns` even at twice the average rate so far. Pure. */
bool delivery_misses(uint64_t bytes, uint64_t moved, uint64_t since_ns, uint64_t now_ns,
                     uint64_t until_ns);

/* The bytes that were written to the socket and that the peer has not received; 0 if the system
 * does not tell. A Unix socket counts the system's own overhead too. */
uint64_t delivery_outstanding(int fd);
/* Whether the peer of a Unix socket has closed it after it had read all that was written. (The
 * system reports ECONNRESET if the peer left bytes unread.) False for other sockets, and while the
 * peer has the socket open. */
bool delivery_was_read(int fd);

/* The rate in bytes a second that is asked of the client of a Unix socket at most. */
enum { DELIVERY_UNIX_RATE = 16 * 1024 };

/* An answer that is being received. */
struct delivery {
    bool begun;                  /* the fields below are set for this answer */
    bool counts;                 /* TCP: the socket counts acknowledged bytes */
    uint64_t acknowledged_bytes; /* TCP: acknowledged before the answer */
    uint64_t outstanding_bytes;  /* Unix socket: at the last look */
    uint64_t received_bytes;     /* Unix socket: the estimate */
};

/* Begins to observe an answer on the socket. */
void delivery_begin(struct delivery *delivery, int fd);
/* Looks at a Unix socket, for the estimate: several times a second while an answer is sent. Does
 * nothing for a socket of TCP. */
void delivery_look(struct delivery *delivery, int fd);
/* Whether the client is slower than `least_rate` bytes a second (0: no minimum) or, over TCP, even
 * at twice its average rate, cannot have an answer of `bytes` bytes by `until_ns` (0: no such
 * time). The answer began at `since_ns`, at least some seconds ago. delivery_begin was called. */
bool delivery_is_slow(const struct delivery *delivery, int fd, uint64_t since_ns, uint64_t now_ns,
                      uint64_t least_rate, uint64_t bytes, uint64_t until_ns);

#endif
