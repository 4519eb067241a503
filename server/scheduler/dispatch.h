/*
 * dispatch.h - the thread that feeds a device: takes work from its queue whenever a stream is
 * free, and ends work when the device is done with it. Works that can share a launch do: whenever
 * there is room, all that wait are taken, and none is waited for. One a device (two split batches
 * and lose). Also has bodies copied while they are received, and answers readiness probes, so that
 * /readyz says what the device really does.
 *
 * Once the device is lost, all work that waits or comes later ends with GEMMD_ERR_DEVICE_LOST.
 */
#ifndef SERVER_SCHEDULER_DISPATCH_H
#define SERVER_SCHEDULER_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/observe/metrics.h"
#include "server/scheduler/early_copy.h"
#include "server/scheduler/probe.h"
#include "server/scheduler/queue.h"

struct dispatch;

/* Starts the thread (and the verifier's). All are borrowed and must outlive it; `shard` is written
 * by this thread alone. `early_copy` is the device's, NULL for one that copies nothing early. At
 * most `max_batch` works (1 ... DEVICE_LAUNCH_WORKS_MAX) share a launch. Before it sleeps, the
 * thread looks for work for busy_poll_us. NULL if a thread can't start or there is no memory. */
struct dispatch *dispatch_start(struct device *device, struct queue *queue,
                                struct early_copy *early_copy, struct metrics_shard *shard,
                                uint32_t max_batch, uint32_t busy_poll_us);
/* Waits until all work that was pushed is done and the threads have ended; work pushed later ends
 * with GEMMD_ERR_DRAINING. False if that takes longer than `patience_ns` (UINT64_MAX: any time):
 * the device computes something long, which nothing can stop. The threads and all they use stay
 * then, and the only way on is the end of the process. NULL is allowed. */
bool dispatch_stop(struct dispatch *dispatch, uint64_t patience_ns);
/* After a dispatch_stop that was false: nobody will wait for it again; the process ends. */
void dispatch_leave(struct dispatch *dispatch);

/* Asks whether the device computed a product with a known answer lately; a probe is run when the
 * last success is older than a second. True: `wait` has the answer already. False: wait->done will
 * be called with it, from another thread, within about `timeout_ms`. Not subject to the queue's
 * limits, and not behind the work in it; a CPU that is computing answers for itself. Any thread but
 * the dispatch thread. */
bool dispatch_probe(struct dispatch *dispatch, struct probe_wait *wait, uint32_t timeout_ms);
/* Answers those who have waited for long enough; called by a timer. */
void dispatch_expire_probes(struct dispatch *dispatch, uint64_t now_ns);

#endif
