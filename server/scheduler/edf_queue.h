/*
 * edf_queue.h - the waiting works of one tenant, lane and priority, earliest deadline first. Works
 * without a deadline come last. Works with equal deadlines run in the order of their arrival.
 *
 * Deadlines count in steps of 2^20 ns, about a millisecond. Requests with the same timeout arrive
 * nearly in the order of their deadlines, so that most works are added at the end of a list and
 * removed at its front. Only works that arrive out of order go through a heap. Adding and removing
 * therefore take O(1) steps for the usual load and O(log n) steps for any load.
 *
 * Works are borrowed. Not thread-safe: the queue's lock protects an edf_queue.
 */
#ifndef SERVER_SCHEDULER_EDF_QUEUE_H
#define SERVER_SCHEDULER_EDF_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"

/* Zeroed: empty. */
struct edf_queue {
    struct work *first, *last; /* works that arrived in the order of their deadlines */
    struct heap_node *others;  /* works that arrived after one with a later deadline */
};

/* Whether work `one` runs before work `other` of the same tenant, lane and priority. `order` of
 * both is set. */
bool edf_queue_before(const struct work *one, const struct work *other);

/* Adds a work. `work->order`, the work's number in the order of arrival, is set. */
void edf_queue_add(struct edf_queue *edf, struct work *work);
/* Removes a work that is in the queue. */
void edf_queue_remove(struct edf_queue *edf, struct work *work);
/* The work to run next, which stays in the queue; NULL: the queue is empty. */
struct work *edf_queue_first(const struct edf_queue *edf);
/* A time before which no work in the queue has a deadline; UINT64_MAX: no work has one. */
uint64_t edf_queue_earliest_ns(const struct edf_queue *edf);

#endif
