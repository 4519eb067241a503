/*
 * early_copy.h - bodies whose operands go to the device while the rest is still being received.
 *
 * A body is opened as soon as it is known where its operands lie and their memory is reserved: at
 * the headers of its request, or once its own header has landed. The I/O thread says
 * how much of it has landed, and the dispatch thread has the device copy that. Its work, if there
 * will be one, runs after these copies and needs not wait for more than the last bytes'. A body
 * that comes to nothing (its client left, it was refused, its deadline passed) is closed, and the
 * early_copy gives its memory back once the device does not read or write it any more; nobody waits
 * for that.
 *
 * One lock, held for some assignments at a time. The dispatch thread is woken once for each
 * EARLY_COPY_STEP_BYTES of a body, which take half a millisecond to receive.
 */
#ifndef SERVER_SCHEDULER_EARLY_COPY_H
#define SERVER_SCHEDULER_EARLY_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/device/memory/pool.h"
#include "server/scheduler/queue.h"

struct early_copy;
struct early_copy_body;

enum {
    EARLY_COPY_STEP_BYTES = 2 << 20, /* what is copied at once, 40 us on the bus of an H100 */
    EARLY_COPY_BODY_BYTES =
        2 * EARLY_COPY_STEP_BYTES /* smaller bodies are copied when their work runs */
};

/* For a device that copies early (device_copies_early). All are borrowed; the queue's waiting
 * thread is the one that calls early_copy_feed. NULL: out of memory. */
struct early_copy *early_copy_create(struct device *device, struct queue *queue, struct pool *pool);
/* After early_copy_stop, and when no body is open. NULL is allowed, here and below. */
void early_copy_destroy(struct early_copy *early_copy);

/* --- For whoever receives a body. */

/* A body of `body_bytes` at `body`, a block of the pool, that has operands of `work`: its problem
 * points to where they will be, and its device memory is reserved. NULL if nothing of it
 * can go early, or there is no memory: then it goes as any other. */
struct early_copy_body *early_copy_open(struct early_copy *early_copy, const struct work *work,
                                        void *body, uint64_t body_bytes);
/* So many bytes are there by now. Until the work is pushed. */
void early_copy_received(struct early_copy_body *body, uint64_t bytes);
/* For work->copy_in, before it is pushed. Borrowed. */
struct copy_in *early_copy_copies(struct early_copy_body *body);
/* It is over, whatever became of its work, which is nobody else's any more. True: the memory is the
 * caller's still. False: the early_copy gives back the body's block and the work's device memory.
 * Any thread. */
bool early_copy_close(struct early_copy_body *body);

/* --- For the dispatch thread. */

/* Starts copying what has landed; work that was popped before must not be submitted before. Returns
 * how many bytes. */
uint64_t early_copy_feed(struct early_copy *early_copy);
/* Whether copies of closed bodies are under way: early_copy_feed is to be called before long. */
bool early_copy_is_closing(struct early_copy *early_copy);
/* No more copies from now on: waits for those that are under way. Bodies may still be closed. */
void early_copy_stop(struct early_copy *early_copy);

#endif
