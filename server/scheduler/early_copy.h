/*
 * early_copy.h - copies of operands to the device that start while the rest of the request's body
 * is still being received.
 *
 * A body is opened as soon as the daemon knows where its operands lie and has reserved their
 * memory: at the headers of the request, or once the header inside the body has been received. The
 * I/O thread reports how many bytes of the body have been received, and the dispatch thread has the
 * device copy them. The body's work, if the body leads to one, runs after the early copies and
 * waits only for the copy of the last bytes. A body that leads to no work (because its client has
 * disconnected, the request was refused, or its deadline has passed) is closed. The early copy then
 * frees the body's memory once the device no longer reads or writes that memory; no thread waits
 * for this.
 *
 * One mutex, held for a few assignments at a time. The dispatch thread is woken once for every
 * EARLY_COPY_STEP_BYTES of a body, which take half a millisecond to receive.
 */
#ifndef SERVER_SCHEDULER_EARLY_COPY_H
#define SERVER_SCHEDULER_EARLY_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/device/memory/pinned_pool.h"
#include "server/scheduler/queue.h"

struct early_copy;
struct early_copy_body;

enum {
    /* Bytes that are copied at once: 40 us on the bus of an H100. */
    EARLY_COPY_STEP_BYTES = 2 << 20,
    /* Smaller bodies are copied when their works run. */
    EARLY_COPY_BODY_BYTES = 2 * EARLY_COPY_STEP_BYTES
};

/* Creates the early copies of a device that copies early (device_copies_early). All pointers are
 * borrowed. The dispatch thread, which waits in queue_pop, has to call early_copy_feed whenever it
 * is woken. NULL: out of memory. */
struct early_copy *early_copy_create(struct device *device, struct queue *queue, struct pool *pool);
/* Called after early_copy_stop, when no body is open. Every function below that takes a `struct
 * early_copy` or a `struct early_copy_body` allows NULL, except early_copy_copies,
 * early_copy_feed and early_copy_is_closing. */
void early_copy_destroy(struct early_copy *early_copy);

/* --- For the thread that receives a body. */

/* Opens a body of `body_bytes` at `body`, a block of the pool that will hold operands of `work`.
 * The work's problem points to the locations of these operands, and the work's device memory is
 * reserved. NULL: no operand can be copied early, or there is no memory; the operands are then
 * copied when the work runs. */
struct early_copy_body *early_copy_open(struct early_copy *early_copy, const struct work *work,
                                        void *body, uint64_t body_bytes);
/* Reports that the first `bytes` of the body have been received. Must not be called after the work
 * was pushed. */
void early_copy_received(struct early_copy_body *body, uint64_t bytes);
/* The body's copies, for work->copy_in, which is set before the work is pushed. Borrowed. */
struct copy_in *early_copy_copies(struct early_copy_body *body);
/* Ends the body. The caller owns the work, or the work has ended. True: the caller still owns the
 * body's block and the work's device memory. False: the early copy frees both after its copies. Any
 * thread. */
bool early_copy_close(struct early_copy_body *body);

/* --- For the dispatch thread. */

/* Starts copying the bytes that were received. A work that was popped must not be submitted before
 * the next early_copy_feed. Returns the number of bytes whose copies were started. */
uint64_t early_copy_feed(struct early_copy *early_copy);
/* Whether copies of closed bodies are in flight, so that early_copy_feed has to be called soon. */
bool early_copy_is_closing(struct early_copy *early_copy);
/* Starts no more copies, and waits for those in flight. Bodies may still be closed afterwards. */
void early_copy_stop(struct early_copy *early_copy);

#endif
