#include "server/http/waiters.h"

#include <sys/epoll.h>
#include <unistd.h>

/* Events that one call of epoll_wait returns at most. */
enum { COLLECT_MAX = 64 };
/* How long a waiter waits before its socket is watched. */
static const uint64_t WATCH_AFTER_NS = 10000000;

bool waiters_open(struct waiters *waiters, waiter_ended *ended)
{
    *waiters = (struct waiters){
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC), .ended = ended, .earliest_ns = UINT64_MAX};
    return waiters->epoll_fd >= 0;
}

void waiters_close(struct waiters *waiters)
{
    close(waiters->epoll_fd);
}

void waiters_add(struct waiters *waiters, struct waiter *waiter)
{
    waiter->watched = false;
    list_append(&waiters->waiting, &waiter->in_waiters);
    if (waiters->unwatched == NULL)
        waiters->unwatched = &waiter->in_waiters;
    if (waiter->deadline_ns != 0 && waiter->deadline_ns < waiters->earliest_ns)
        waiters->earliest_ns = waiter->deadline_ns;
}

void waiters_remove(struct waiters *waiters, struct waiter *waiter)
{
    if (waiter->in_waiters.list == NULL)
        return;
    if (waiters->unwatched == &waiter->in_waiters)
        waiters->unwatched = waiter->in_waiters.next;
    list_remove(&waiter->in_waiters);
    if (!waiter->watched)
        return;
    (void)epoll_ctl(waiters->epoll_fd, EPOLL_CTL_DEL, waiter->fd, NULL);
    waiters->watched--;
}

static void waiters_end_one(struct waiters *waiters, struct waiter *waiter, enum waiter_end how)
{
    waiters_remove(waiters, waiter);
    waiters->ended(waiter, how);
}

/* When the next socket has to be watched; UINT64_MAX: all are watched. */
static uint64_t watch_due_ns(const struct waiters *waiters)
{
    return waiters->unwatched == NULL
               ? UINT64_MAX
               : OWNER_OF(waiters->unwatched, struct waiter, in_waiters)->since_ns + WATCH_AFTER_NS;
}

/* Ends the waits whose deadline has passed, and finds the next deadline. */
static void waiters_end_late(struct waiters *waiters, uint64_t now_ns)
{
    struct list_item *next;
    uint64_t earliest_ns = UINT64_MAX;
    for (struct list_item *item = waiters->waiting.first; item != NULL; item = next) {
        struct waiter *waiter = OWNER_OF(item, struct waiter, in_waiters);
        next = item->next;
        if (waiter->deadline_ns == 0)
            continue;
        if (waiter->deadline_ns <= now_ns)
            waiters_end_one(waiters, waiter, WAITER_LATE);
        else if (waiter->deadline_ns < earliest_ns)
            earliest_ns = waiter->deadline_ns;
    }
    waiters->earliest_ns = earliest_ns;
}

void waiters_check(struct waiters *waiters, uint64_t now_ns)
{
    struct epoll_event events[COLLECT_MAX];
    int count = COLLECT_MAX;
    while (watch_due_ns(waiters) <= now_ns) {
        struct waiter *waiter = OWNER_OF(waiters->unwatched, struct waiter, in_waiters);
        struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = waiter};
        waiter->watched = epoll_ctl(waiters->epoll_fd, EPOLL_CTL_ADD, waiter->fd, &event) == 0;
        waiters->watched += waiter->watched;
        waiters->unwatched = waiters->unwatched->next;
    }
    if (waiters->earliest_ns <= now_ns)
        waiters_end_late(waiters, now_ns);
    while (waiters->watched > 0 && count == COLLECT_MAX) {
        count = epoll_wait(waiters->epoll_fd, events, COLLECT_MAX, 0);
        for (int i = 0; i < count; i++)
            waiters_end_one(waiters, events[i].data.ptr, WAITER_LEFT);
    }
}

uint64_t waiters_due_ns(const struct waiters *waiters)
{
    const uint64_t watch_ns = watch_due_ns(waiters);
    const uint64_t late_ns = waiters->waiting.first == NULL ? UINT64_MAX : waiters->earliest_ns;
    return watch_ns < late_ns ? watch_ns : late_ns;
}

void waiters_stop(struct waiters *waiters)
{
    while (waiters->waiting.first != NULL)
        waiters_end_one(waiters, OWNER_OF(waiters->waiting.first, struct waiter, in_waiters),
                        WAITER_STOPPED);
}
