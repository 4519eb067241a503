/*
 * queue.h - the bounded queue between the I/O threads and a device's dispatch thread.
 *
 * Higher priority first, first come first served within one. Bounded by count and by bytes,
 * exactly: a place is reserved at the headers (queue_reserve), turned into work (queue_push) or
 * given back (queue_release). A place stays taken until the work is done, not only until it is
 * popped. Thread-safe.
 */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/work.h"

struct queue;

struct queue *queue_create(uint32_t max_requests, uint64_t max_bytes); /* NULL: out of memory */
void queue_destroy(struct queue *queue);                               /* must be empty */

/* Takes a place for one request of `bytes`. GEMMD_ERR_QUEUE_FULL if count or bytes would exceed the
 * limit, GEMMD_ERR_DRAINING after queue_close. */
enum gemmd_error queue_reserve(struct queue *queue, uint64_t bytes, struct fault *fault);
/* Gives a place back: the request failed, or its work is done. */
void queue_release(struct queue *queue, uint64_t bytes);

/* Hands work over; its place must have been reserved. Never fails. */
void queue_push(struct queue *queue, struct work *work);

/* The next work, or NULL. With wait_ns > 0, waits up to that long for one (UINT64_MAX: until there
 * is one or queue_close was called and it is empty). Expired work is never returned: its `done` is
 * called with GEMMD_ERR_DEADLINE instead. */
struct work *queue_pop(struct queue *queue, uint64_t wait_ns);

/* Ends work whose deadline has passed (`done` with GEMMD_ERR_DEADLINE); called by a timer. */
void queue_expire(struct queue *queue, uint64_t now_ns);
/* Ends all waiting work with `code`; used when the device is lost. */
void queue_fail_all(struct queue *queue, enum gemmd_error code, const char *detail);

/* No more places from now on; what was accepted is still handed out. Wakes a waiting pop. */
void queue_close(struct queue *queue);

/* For metrics and Retry-After; any thread. */
struct queue_state {
    uint32_t waiting, reserved; /* pushed and not popped; places taken */
    uint64_t waiting_bytes, reserved_bytes;
};
struct queue_state queue_state(struct queue *queue);

#endif
