/*
 * dispatch.h - the thread that feeds a device: takes work from its queue whenever a stream is
 * free, and ends work when the device is done with it. One a device (two split batches
 * and lose). Also answers readiness probes, so that /readyz says what the device really does.
 */
#ifndef SERVER_DISPATCH_H
#define SERVER_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device.h"
#include "server/metrics.h"
#include "server/queue.h"

struct dispatch;

/* Starts the thread. All are borrowed and must outlive it. NULL if the thread can't start. */
struct dispatch *dispatch_start(struct device *device, struct queue *queue,
                                struct metrics_shard *shard);
/* queue_close must have been called; waits until all accepted work is done and the thread has
 * ended. */
void dispatch_stop(struct dispatch *dispatch);

/* Whether the device computed a product with a known answer lately (a probe is run when the last
 * success is older than a second; waits at most `timeout_ms` for it). `reason` (may be NULL) says
 * why not. Any thread but the dispatch thread. */
bool dispatch_probe(struct dispatch *dispatch, uint32_t timeout_ms, char *reason,
                    uint32_t capacity);

#endif
