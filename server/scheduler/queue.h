/*
 * queue.h - the bounded queue between the I/O threads and a device's dispatch thread.
 *
 * The order is that of priority; within one, tenants share fairly; within a tenant, the earliest
 * deadline comes first, then those without one by arrival (edf.h). Fairness stands before
 * deadlines, because a deadline is what a client says it is: if it counted across tenants, whoever
 * sends `timeout_ms=1` would pass all others for ever.
 *
 * Fair means equal bytes of work for all tenants that have some waiting, by start-time fair
 * queueing (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996): each tenant has a tag that grows by the
 * bytes of what was run for it, and the least tag is next. Two tenants that wait all the time are
 * never further apart than the largest work of each. Deficit round robin gives the same shares, but
 * its quantum has to be as large as the largest work, here a gigabyte, or it goes round and round
 * until a large work's turn has come. A tenant who had nothing waiting for a while has saved up
 * nothing. Bytes of work are those of operands and results wherever they are, resident ones and
 * those in a client's memory too: the same product costs the same.
 *
 * There are two lanes: works that go to a stream of their own and works that go to one for shared
 * launches. Whoever takes work says of which there is room, and where there is room for both they
 * go by priority and arrival alike; a lane without room holds up only itself.
 *
 * In either lane works may wait that can be stacked, products and attentions (work.h: stack_key).
 * When the turn of one has come, those of its stack come along, whatever waits between them, in the
 * order above: for them the launch costs next to nothing. Each is paid for by its tenant as if it
 * had been its turn.
 *
 * Bounded by count and by bytes, in total and for each tenant, exactly (places.h): a place is
 * reserved at the headers (queue_reserve), turned into work (queue_push) and given back
 * (queue_release) when the request is over, so that it counts what waits, runs and is being
 * received alike. Thread-safe. Pushing, popping and removing take O(1) steps for one tenant whose
 * deadlines come in order, O(log n) for any others. `done` callbacks are called by the thread whose
 * call ended the work, with no lock held.
 */
#ifndef SERVER_SCHEDULER_QUEUE_H
#define SERVER_SCHEDULER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/work.h"
#include "server/scheduler/admission.h"

struct queue;

struct queue *queue_create(const struct admission_limits *limits); /* NULL: out of memory */
void queue_destroy(struct queue *queue); /* no work may wait in it; NULL is allowed */

/* Takes a place for one request of `bytes`. GEMMD_ERR_QUEUE_FULL if count or bytes would exceed a
 * limit (GEMMD_ERR_TOO_LARGE if they would in an empty queue too), GEMMD_ERR_DRAINING after
 * queue_close, queue_fail_all's code after that. */
enum gemmd_error queue_reserve(struct queue *queue, uint32_t tenant, uint64_t bytes,
                               struct fault *fault);
/* Adds `more` to the bytes of a place that has `bytes`: what is known only once the body is there.
 * GEMMD_ERR_QUEUE_FULL or GEMMD_ERR_TOO_LARGE as above, and the place is as it was; a queue that
 * was closed since takes it. */
enum gemmd_error queue_reserve_more(struct queue *queue, uint32_t tenant, uint64_t bytes,
                                    uint64_t more, struct fault *fault);
/* Gives a place back: the request is over, whatever became of it. */
void queue_release(struct queue *queue, uint32_t tenant, uint64_t bytes);
/* The places, for their metrics and Retry-After. */
struct admission *queue_admission(struct queue *queue);

/* Hands work over; its place must have been reserved. Never fails; after queue_fail_all the work
 * ends at once, before this returns. Takes no lock, unless a thread sleeps that has to be woken. */
void queue_push(struct queue *queue, struct work *work);
/* Takes back work that was pushed, if it still waits: `done` will not be called, and the work is
 * the caller's again. False if it was popped or has ended: `done` was called, or will be. The work
 * must not be gone. */
bool queue_cancel(struct queue *queue, struct work *work);

/* What a taker has room for. */
struct queue_room {
    uint32_t exclusive;    /* a launch on a stream of its own: one work, or a stack of so many */
    uint32_t shared;       /* a shared launch of so many works; */
    uint64_t shared_bytes; /* if of more than one, of so many bytes together */
};

/* The next work, or NULL: one that runs alone, or a chain by `next` of all that share a launch and
 * wait now, the more urgent first, as far as there is room: the works of a stack (then all have a
 * stack_key), or others. With wait_ns > 0, waits up to that long
 * for one (UINT64_MAX: until there is one) or for queue_wake. Expired work is never returned: its
 * `done` is called with GEMMD_ERR_DEADLINE instead. */
struct work *queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns);
/* Makes a waiting pop, or else the next one that would wait, return at once. */
void queue_wake(struct queue *queue);

/* Ends work whose deadline has passed (`done` with GEMMD_ERR_DEADLINE), within a millisecond or the
 * next call; called by a timer. */
void queue_expire(struct queue *queue, uint64_t now_ns);
/* Ends all waiting work with `code`, and from now on all that is pushed; no more places are given.
 * Used when the device is lost or its dispatch thread ends. The first code stays. */
void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail);

/* No more places from now on; work whose place was reserved before is still taken and handed out.
 */
void queue_close(struct queue *queue);

/* For metrics; any thread. */
struct queue_state {
    uint32_t waiting, reserved; /* pushed and not popped; places taken */
    uint64_t waiting_bytes, reserved_bytes;
};
struct queue_state queue_state(struct queue *queue);

#endif
