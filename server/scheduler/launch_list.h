/*
 * launch_list.h - which of the waiting works go together in the next launch.
 *
 * The next work is the first of one of the two lanes. If the first works of both lanes belong to
 * one tenant, the one with the higher priority is next, and with equal priorities the one that
 * arrived first. If they belong to two tenants, the one that arrived first is next. A lane that the
 * device has no room for is left out, so that such a lane does not hold up the other: the works of
 * one lane pass those of the other at most as often as the lane has streams. Which works join the
 * first work in a launch list depends on the first work:
 *
 * - If the first work can be stacked (work.h: stack_key), the waiting works of the same stack join,
 *   up to the limits of a launch and of a stack,
 *   whatever waits between them, because they add almost nothing to the launch's time. They join in
 *   the queue's order, so that tenants share a stack fairly. Each of these works is charged to its
 *   tenant as if its turn had come, so that a tenant that fills a stack waits longer for its next
 *   launch.
 * - Otherwise, if the first work shares its launch, the works after it in its lane join, up to the
 *   next work that can be stacked.
 * - Otherwise the work has a launch of its own.
 */
#ifndef SERVER_SCHEDULER_LAUNCH_LIST_H
#define SERVER_SCHEDULER_LAUNCH_LIST_H

#include <stdint.h>

#include "server/scheduler/fair_queue.h"

/* What the device has room for. */
struct queue_room {
    uint32_t exclusive;    /* most works of one stack on a stream of its own; 0: no such stream */
    uint32_t shared;       /* most works of a shared launch; 0: no room for a shared launch */
    uint64_t shared_bytes; /* most bytes of a launch of several works */
};

/* Removes the works of the next launch from the queue and returns them, the more urgent first,
 * linked by `next`. NULL: the device has room for no work that waits. `now_ns` is 0 if no waiting
 * work has a deadline. Works whose deadline has passed are dropped and appended to `expired`. */
struct work *launch_list_take(struct fair_queue *queue, struct queue_room room, uint64_t now_ns,
                              struct work_list *expired);

#endif
