/*
 * queue.h - the bounded queue between the I/O threads, which push works, and a device's dispatch
 * thread, which pops them.
 *
 * Tenants get equal shares of the device, counted in the cost of work (work_cost). Within a
 * tenant, works run by priority; within a priority, the earliest deadline comes first, and works
 * without a deadline come last, by arrival (fair_queue.h). Fairness stands before
 * priorities and deadlines, because a client chooses its own: if they counted across tenants, a
 * client that always sends `priority=9` or `timeout_ms=1` would pass all others for ever. The cost
 * of a work counts the bytes of all its operands and results, also of resident operands and of
 * operands and results in shared memory, so that the same product always costs the same.
 *
 * The queue has two lanes: works that take a stream, alone, as a group or as a stack on the CPU,
 * and works that run on a stream for shared launches (work.shared_launch). The caller of queue_pop
 * says which kind of stream is free. queue_pop takes along the other works that may go in the same
 * launch.
 *
 * The next work is the first of one of the two lanes. If the first works of both lanes belong to
 * one tenant, the one with the higher priority is next, and with equal priorities the one that
 * arrived first. If they belong to two tenants, the one that arrived first is next. A lane that the
 * device has no room for is left out, so that such a lane does not hold up the other: the works of
 * one lane pass those of the other at most as often as the lane has streams. Which works join the
 * first work in a launch list depends on the first work:
 *
 * - If others can join the first work in a stack or a group (work.h: join_key), those that wait do,
 *   up to the limits of a launch and of a stack or group, whatever waits between them, because they
 *   add almost nothing to the launch's time. Works join in the queue's order, so that tenants share
 *   a launch fairly. Each of these works is charged to its tenant as if its turn had come, so that
 * a tenant that fills a launch waits longer for its next launch.
 * - Otherwise, if the first work shares its launch, the works after it in its lane join, up to the
 *   next work that others can join.
 * - Otherwise the work has a launch of its own.
 *
 * The queues of all devices together are bounded by requests and by bytes, in total and for each
 * tenant (admission.h). A request makes a reservation at its headers (queue_admit), has its work
 * pushed (queue_push), and gives the reservation back when the request is over (admission_give).
 * Reservations therefore count requests that are being received, that wait, that run and that are
 * being answered alike.
 *
 * Thread-safe. Pushing, popping and cancelling take O(1) steps for one tenant whose deadlines come
 * in order, and O(log n) steps otherwise. A work's `done` callback is called by the thread whose
 * call ended the work, with no lock held.
 */
#ifndef SERVER_SCHEDULER_QUEUE_H
#define SERVER_SCHEDULER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"
#include "server/scheduler/admission.h"

struct queue;

/* Creates a queue for the works of `tenants` tenants (0 counts as one), whose requests are admitted
 * by `admission`, which is borrowed and which queues may share. NULL: out of memory. */
struct queue *queue_create(struct admission *admission, uint32_t tenants);
/* No work may wait in the queue. NULL is allowed. */
void queue_destroy(struct queue *queue);

/* Makes a reservation for one request of `bytes`, as admission_take does. Other errors are
 * GEMMD_ERR_DRAINING after queue_close, and after queue_fail_all the code that queue_fail_all was
 * given. */
enum gemmd_error queue_admit(struct queue *queue, uint32_t tenant, uint64_t bytes,
                             struct reservation *reservation, struct fault *fault);
/* The admission that the queue's reservations are made with. */
struct admission *queue_admission(struct queue *queue);

/* Hands a work over to the queue. The work's request must have a reservation. A push never fails;
 * after queue_fail_all the work ends before queue_push returns. A push takes no lock unless a
 * sleeping thread has to be woken. */
void queue_push(struct queue *queue, struct work *work);
/* Takes back a work that was pushed. True: the work was still waiting, `done` will not be called,
 * and the work belongs to the caller again. False: the work was popped or has ended, and `done` was
 * called or will be called. A work that was popped is marked (work->stop), and a device that can
 * end a computation early ends the computation of the work. The work must still exist. */
bool queue_cancel(struct queue *queue, struct work *work);

/* What the device has room for. */
struct queue_room {
    /* Most works of a launch of the first lane: of a group, or of a stack on the CPU. 0: no stream
     * of that lane is free. */
    uint32_t exclusive;
    uint32_t shared;       /* most works of a shared launch; 0: no room for a shared launch */
    uint64_t shared_bytes; /* most bytes of a launch of several works */
    /* Only works that cost at most this (work_cost) are first of a launch of the first lane; 0: all
     * works. Of each tenant's works the next one counts, so that a tenant's order stays. */
    uint64_t cost_max;
};

/* Pops the works of the next launch, linked by `next`, the more urgent first; NULL: the device has
 * room for no work that waits. If `wait_ns` is not 0, a pop waits up to `wait_ns`
 * nanoseconds (UINT64_MAX: for any time) for a work or for queue_wake. An expired work is never
 * returned: its `done` is called with GEMMD_ERR_DEADLINE instead. */
struct work *queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns);
/* Makes a pop that is waiting, or else the next pop that would wait, return at once. */
void queue_wake(struct queue *queue);

/* Ends works whose deadline has passed with GEMMD_ERR_DEADLINE. Called by a timer. Deadlines count
 * in steps of about a millisecond, so that a work may end one call late. */
void queue_expire(struct queue *queue, uint64_t now_ns);
/* Ends with `code` all works that wait and all works that are pushed from now on, and refuses new
 * reservations. Called when the device is lost or its dispatch thread ends. Only the first call's
 * code and detail are used for later works. */
void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail);

/* Refuses new reservations from now on. Works of earlier reservations are still taken and popped.
 */
void queue_close(struct queue *queue);

/* Whether the queue was created for several tenants. Any thread. */
bool queue_has_tenants(const struct queue *queue);

/* For metrics; any thread. */
struct queue_state {
    uint32_t waiting;  /* works that were pushed and neither popped nor ended */
    uint32_t reserved; /* requests that hold a reservation */
    uint64_t waiting_bytes, reserved_bytes;
};
struct queue_state queue_state(struct queue *queue);

#endif
