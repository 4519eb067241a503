/*
 * agenda.h - the works of one tenant, lane and priority that wait, in the order they run: the
 * earliest deadline first, those without one last, each by arrival.
 *
 * Deadlines count in steps of a millisecond (2^20 ns). Requests with one timeout arrive nearly in
 * the order of their deadlines, so that most works go to the end of a list and leave at its front;
 * only what comes out of order goes through a heap. So adding and removing take O(1) steps for the
 * usual load, and O(log n) for any. Not thread-safe: the queue locks it.
 */
#ifndef SERVER_WORK_AGENDA_H
#define SERVER_WORK_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

#include "server/work/work.h"

/* Zeroed: empty. */
struct agenda {
    struct work *first, *last; /* in order already */
    struct heap_node *others;  /* those that came after one with a later deadline */
};

/* Whether one runs before another of the same tenant, lane and priority; `order` is set. */
bool agenda_before(const struct work *one, const struct work *other);

/* `work->order`, its number in order of arrival, is set. The work stays the caller's. */
void agenda_add(struct agenda *agenda, struct work *work);
void agenda_remove(struct agenda *agenda, struct work *work);
/* The one to run next, which stays where it is; NULL if there is none. */
struct work *agenda_first(const struct agenda *agenda);
/* No work has a deadline before this; UINT64_MAX if none has one. */
uint64_t agenda_earliest_ns(const struct agenda *agenda);

#endif
