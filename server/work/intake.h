/*
 * intake.h - bodies whose operands go to the device while the rest is still being received.
 *
 * A body is opened as soon as it is known where its operands lie and their memory is reserved: at
 * the headers of its request, or once its own header has landed. The I/O thread says
 * how much of it has landed, and the dispatch thread has the device copy that. Its work, if there
 * will be one, runs after these copies and needs not wait for more than the last bytes'. A body
 * that comes to nothing (its client left, it was refused, its deadline passed) is closed, and the
 * intake gives its memory back once the device does not read or write it any more; nobody waits for
 * that.
 *
 * One lock, held for some assignments at a time. The dispatch thread is woken once for each
 * INTAKE_STEP_BYTES of a body, which take half a millisecond to receive.
 */
#ifndef SERVER_WORK_INTAKE_H
#define SERVER_WORK_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/device/pool.h"
#include "server/work/queue.h"

struct intake;
struct intake_body;

enum {
    INTAKE_STEP_BYTES = 2 << 20, /* what is copied at once, 40 us on the bus of an H100 */
    INTAKE_BODY_BYTES = 2 * INTAKE_STEP_BYTES /* smaller bodies are copied when their work runs */
};

/* For a device that copies early (device_copies_early). All are borrowed; the queue's waiting
 * thread is the one that calls intake_feed. NULL: out of memory. */
struct intake *intake_create(struct device *device, struct queue *queue, struct pool *pool);
/* After intake_stop, and when no body is open. NULL is allowed, here and below. */
void intake_destroy(struct intake *intake);

/* --- For whoever receives a body. */

/* A body of `body_bytes` at `body`, a block of the pool, that has operands of `work`: its problem
 * points to where they will be, and its device memory is reserved. NULL if nothing of it
 * can go early, or there is no memory: then it goes as any other. */
struct intake_body *intake_open(struct intake *intake, const struct work *work, void *body,
                                uint64_t body_bytes);
/* So many bytes are there by now. Until the work is pushed. */
void intake_landed(struct intake_body *body, uint64_t bytes);
/* For work->copy_in, before it is pushed. Borrowed. */
struct copy_in *intake_copies(struct intake_body *body);
/* It is over, whatever became of its work, which is nobody else's any more. True: the memory is the
 * caller's still. False: the intake gives back the body's block and the work's device memory. Any
 * thread. */
bool intake_close(struct intake_body *body);

/* --- For the dispatch thread. */

/* Starts copying what has landed; work that was popped before must not be submitted before. Returns
 * how many bytes. */
uint64_t intake_feed(struct intake *intake);
/* Whether copies of closed bodies are under way: intake_feed is to be called before long. */
bool intake_is_closing(struct intake *intake);
/* No more copies from now on: waits for those that are under way. Bodies may still be closed. */
void intake_stop(struct intake *intake);

#endif
