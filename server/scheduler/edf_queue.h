/*
 * edf_queue.h - the works of one tenant, lane and priority that wait, in the order they run: the
 * earliest deadline first, those without one last, each by arrival.
 *
 * Deadlines count in steps of a millisecond (2^20 ns). Requests with one timeout arrive nearly in
 * the order of their deadlines, so that most works go to the end of a list and leave at its front;
 * only what comes out of order goes through a heap. So adding and removing take O(1) steps for the
 * usual load, and O(log n) for any. Not thread-safe: the queue locks it.
 */
#ifndef SERVER_SCHEDULER_EDF_QUEUE_H
#define SERVER_SCHEDULER_EDF_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"

/* Zeroed: empty. */
struct edf_queue {
    struct work *first, *last; /* in order already */
    struct heap_node *others;  /* those that came after one with a later deadline */
};

/* Whether one runs before another of the same tenant, lane and priority; `order` is set. */
bool edf_queue_before(const struct work *one, const struct work *other);

/* `work->order`, its number in order of arrival, is set. The work stays the caller's. */
void edf_queue_add(struct edf_queue *edf, struct work *work);
void edf_queue_remove(struct edf_queue *edf, struct work *work);
/* The one to run next, which stays where it is; NULL if there is none. */
struct work *edf_queue_first(const struct edf_queue *edf);
/* No work has a deadline before this; UINT64_MAX if none has one. */
uint64_t edf_queue_earliest_ns(const struct edf_queue *edf);

#endif
