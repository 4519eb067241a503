/*
 * waiters.h - an I/O thread's waiters: requests whose work other threads have. The wait for the
 * work ends early if the request's deadline passes or its client disconnects.
 *
 * libmicrohttpd watches no socket between a request and its answer. So the socket of a request that
 * has waited for some milliseconds is watched here. A request that is answered sooner, as nearly
 * all small products are, costs two operations on a list and no system call.
 *
 * A client counts as disconnected when it ends its side of the connection, because an interrupted
 * client looks no different: a killed curl sends a FIN too. So a client that wants its answer must
 * not half-close its connection. nginx and Go's net/http do the same, and HAProxy does with
 * abortonclose.
 *
 * Only the I/O thread uses its waiters.
 */
#ifndef SERVER_HTTP_WAITERS_H
#define SERVER_HTTP_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/list.h"

/* A waiter, which is a member of the struct of a request. */
struct waiter {
    int fd;
    uint64_t since_ns;    /* when the wait began; monotonic clock */
    uint64_t deadline_ns; /* monotonic clock; 0: none */

    /* Only waiters.c uses the fields from here on. */
    struct list_item in_waiters;
    bool watched;
};

/* Why a wait has ended: the deadline has passed, the client has disconnected, or the thread stops.
 */
enum waiter_end { WAITER_LATE, WAITER_LEFT, WAITER_STOPPED };
/* Called when a wait has ended, after the waiter was removed. The callback must not add or remove
 * waiters. */
typedef void waiter_ended(struct waiter *waiter, enum waiter_end end);

struct waiters {
    int epoll_fd; /* readable when a watched client has disconnected */
    waiter_ended *ended;
    struct list waiting;         /* ordered by since_ns */
    struct list_item *unwatched; /* the first waiter whose socket is not watched yet; NULL: none */
    uint32_t watched;            /* number of watched sockets */
    uint64_t earliest_ns;        /* no deadline is earlier; UINT64_MAX: there is no deadline */
};

/* Returns false if the system gives no descriptor for the epoll instance. */
bool waiters_open(struct waiters *waiters, waiter_ended *ended);
void waiters_close(struct waiters *waiters);

/* Adds a waiter. The caller has set its `fd`, `since_ns` and `deadline_ns`. `since_ns` must not be
 * earlier than that of any waiter added before. */
void waiters_add(struct waiters *waiters, struct waiter *waiter);
/* Removes a waiter without calling `ended`. Does nothing if the waiter is not listed. */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);

/* Ends the waits whose deadline has passed or whose client has disconnected. */
void waiters_check(struct waiters *waiters, uint64_t now_ns);
/* When waiters_check has to be called, if epoll_fd does not become readable before. UINT64_MAX:
 * only when epoll_fd becomes readable. */
uint64_t waiters_due_ns(const struct waiters *waiters);
/* Ends all waits, as WAITER_STOPPED. */
void waiters_stop(struct waiters *waiters);

#endif
