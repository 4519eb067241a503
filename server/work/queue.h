/*
 * queue.h - the bounded queue between the I/O threads and a device's dispatch thread.
 *
 * Higher priority first, first come first served within one, in two lanes: works that run alone and
 * works that share a launch. Whoever takes work says of which there is room, and where there is
 * room for both they go by priority and arrival alike; a lane without room holds up only itself.
 * Bounded by count and by bytes,
 * exactly: a place is reserved at the headers (queue_reserve), turned into work (queue_push) and
 * given back (queue_release) when the request is over, so that it counts what waits, runs and is
 * being received alike. Places take no lock. Thread-safe. `done` callbacks are called by the thread
 * whose call ended the work, with no lock held.
 */
#ifndef SERVER_WORK_QUEUE_H
#define SERVER_WORK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/work/work.h"

struct queue;

struct queue *queue_create(uint32_t max_requests, uint64_t max_bytes); /* NULL: out of memory */
void queue_destroy(struct queue *queue); /* no work may wait in it; NULL is allowed */

/* Takes a place for one request of `bytes`. GEMMD_ERR_QUEUE_FULL if count or bytes would exceed the
 * limit (GEMMD_ERR_TOO_LARGE if they would in an empty queue too), GEMMD_ERR_DRAINING after
 * queue_close, queue_fail_all's code after that. */
enum gemmd_error queue_reserve(struct queue *queue, uint64_t bytes, struct fault *fault);
/* Adds `more` to the bytes of a place that has `bytes`: what is known only once the body is there.
 * GEMMD_ERR_QUEUE_FULL or GEMMD_ERR_TOO_LARGE as above, and the place is as it was; a queue that
 * was closed since takes it. */
enum gemmd_error queue_reserve_more(struct queue *queue, uint64_t bytes, uint64_t more,
                                    struct fault *fault);
/* Gives a place back: the request is over, whatever became of it. */
void queue_release(struct queue *queue, uint64_t bytes);

/* Hands work over; its place must have been reserved. Never fails; after queue_fail_all the work
 * ends at once, before this returns. */
void queue_push(struct queue *queue, struct work *work);

/* Takes work back that still waits: then true, and its `done` is never called. False if it was
 * handed out or has ended; then it goes on as if nothing had happened. The work must not be gone.
 */
bool queue_cancel(struct queue *queue, struct work *work);

/* What a taker has room for. */
struct queue_room {
    bool alone;            /* a work that runs alone */
    uint32_t shared;       /* so many works that share a launch, */
    uint64_t shared_bytes; /* of so many bytes together, or one of any size */
};

/* The next work, or NULL: one that runs alone, or a chain by `next` of all that share a launch and
 * wait now, the more urgent first, as far as there is room. With wait_ns > 0, waits up to that long
 * for one (UINT64_MAX: until there is one) or for queue_wake. Expired work is never returned: its
 * `done` is called with GEMMD_ERR_DEADLINE instead. */
struct work *queue_pop(struct queue *queue, struct queue_room room, uint64_t wait_ns);
/* Makes a waiting pop, or else the next one that would wait, return at once. */
void queue_wake(struct queue *queue);

/* Ends work whose deadline has passed (`done` with GEMMD_ERR_DEADLINE); called by a timer. */
void queue_expire(struct queue *queue, uint64_t now_ns);
/* Ends all waiting work with `code`, and from now on all that is pushed; no more places are given.
 * Used when the device is lost or its dispatch thread ends. The first code stays. */
void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail);

/* No more places from now on; work whose place was reserved before is still taken and handed out.
 */
void queue_close(struct queue *queue);

/* For metrics and Retry-After; any thread. */
struct queue_state {
    uint32_t waiting, reserved; /* pushed and not popped; places taken */
    uint64_t waiting_bytes, reserved_bytes;
};
struct queue_state queue_state(struct queue *queue);

#endif
