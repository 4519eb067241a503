/*
 * waiters.h - an I/O thread's requests whose work is in other hands, and which of them need not be
 * waited for any longer: their deadline has passed, or their client has left.
 *
 * libmicrohttpd looks at no socket between a request and its answer. So a request that has waited
 * for some milliseconds has its socket watched here; all that are answered sooner, which is every
 * one of a busy daemon's small products, cost two steps in a list and no system call.
 *
 * A client has left once it ends its side of the connection. That is all that can be seen of one
 * that was interrupted (a killed curl sends a FIN like any other), so that a client that wants its
 * answer must not half-close; nginx and Go's net/http draw the same line, HAProxy with
 * abortonclose.
 *
 * Only the I/O thread touches this.
 */
#ifndef SERVER_HTTP_WAITERS_H
#define SERVER_HTTP_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of what waits. */
struct waiter {
    int fd;
    uint64_t since_ns;    /* monotonic */
    uint64_t deadline_ns; /* 0: none */

    struct waiter *next, *previous; /* the waiters', like the rest */
    bool listed, watched;
};

/* The `type` whose `member` a waiter is. */
#define WAITER_OWNER(waiter, type, member)                                                         \
    ((type *)(void *)((char *)(waiter)-offsetof(type, member)))

enum waiter_end { WAITER_LATE, WAITER_LEFT, WAITER_STOPPED };
/* The waiter has been taken out. Must not add or remove others. */
typedef void waiter_ended(struct waiter *waiter, enum waiter_end end);

struct waiters {
    int epoll_fd; /* readable when some client has left */
    waiter_ended *ended;
    struct waiter *first, *last; /* by since_ns */
    struct waiter *unwatched; /* the first whose socket is not watched yet, as none after it is */
    uint32_t watched;
    uint64_t earliest_ns; /* no deadline is before this; UINT64_MAX: there is none */
};

/* False if the system has no descriptor for it. */
bool waiters_open(struct waiters *waiters, waiter_ended *ended);
void waiters_close(struct waiters *waiters);

/* `fd`, `since_ns` (not before that of any earlier one) and `deadline_ns` are set. */
void waiters_add(struct waiters *waiters, struct waiter *waiter);
/* Nothing happens to one that is not there (any more). */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);

/* Ends those that are late or have left. */
void waiters_check(struct waiters *waiters, uint64_t now_ns);
/* In how many milliseconds waiters_check has something to do, unless epoll_fd says so before; -1:
 * not by itself. */
int waiters_due_ms(const struct waiters *waiters, uint64_t now_ns);
/* Ends all. */
void waiters_stop(struct waiters *waiters);

#endif
