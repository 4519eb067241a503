/*
 * sending.h - whether the client of a connection receives its answer fast enough
 * (--min-answer-rate).
 *
 * libmicrohttpd does not tell how much of an answer was sent, so the system is asked: TCP counts
 * the bytes that the peer has acknowledged. A Unix socket tells only how many bytes are
 * outstanding, so over a Unix socket a client is too slow if that number does not change for long.
 * The system is asked only about answers that have been sent for a while; a small answer costs no
 * system call.
 *
 * Only the connection's I/O thread uses these functions.
 */
#ifndef SERVER_HTTP_SENDING_H
#define SERVER_HTTP_SENDING_H

#include <stdbool.h>
#include <stdint.h>

struct sending {
    bool begun;                  /* the fields below are set for this answer */
    bool counts;                 /* TCP: the socket counts acknowledged bytes */
    uint64_t acknowledged_bytes; /* TCP: acknowledged before the answer */
    uint64_t outstanding_bytes;  /* Unix socket: at the last look */
    uint64_t changed_ns;         /* Unix socket: when outstanding_bytes changed last */
};

/* Begins to observe an answer on the socket. */
void sending_begin(struct sending *sending, int fd, uint64_t now_ns);
/* Whether the client is slower than `least_rate` bytes a second (0: no minimum) or, even at twice
 * its average rate, cannot have an answer of `bytes` bytes by `until_ns` (0: no such time). The
 * answer began at `since_ns`, at least some seconds ago. sending_begin was called. */
bool sending_is_slow(struct sending *sending, int fd, uint64_t since_ns, uint64_t now_ns,
                     uint64_t least_rate, uint64_t bytes, uint64_t until_ns);

#endif
