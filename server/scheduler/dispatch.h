/*
 * dispatch.h - the dispatch thread, which feeds one device: it pops works from the queue whenever
 * a stream is free, submits them, and ends them when the device has finished.
 *
 * Whenever a stream has room, the thread takes the waiting works that can share a launch. The
 * thread waits for more works only while very many requests are accepted: 20 microseconds after
 * each round. A device has one dispatch thread: two threads would split launches, and were slower.
 * The thread also starts the early copies of bodies that are still being received (early_copy.h),
 * and runs readiness probes (probe.h), so that /readyz reports whether the device computes.
 *
 * Once the device is lost, all works that wait or are pushed later end with GEMMD_ERR_DEVICE_LOST.
 */
#ifndef SERVER_SCHEDULER_DISPATCH_H
#define SERVER_SCHEDULER_DISPATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"
#include "server/observe/metrics.h"
#include "server/scheduler/early_copy.h"
#include "server/scheduler/probe.h"
#include "server/scheduler/queue.h"

struct dispatch;

enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_ERROR, VERIFY_RESULT_COUNT };

/* Results of checks so far, by why the result was checked (WORK_VERIFY_ASKED or
 * WORK_VERIFY_SAMPLED). VERIFY_ERROR counts works that were to be verified and failed on the
 * device. Any thread. */
struct verify_counts {
    atomic_uint_fast64_t count[WORK_VERIFY_COUNT][VERIFY_RESULT_COUNT];
};

/* Starts the dispatch thread. All pointers are borrowed and must outlive the thread. `early_copy`
 * is NULL for a device that copies nothing early. `shard` is written by the dispatch thread alone.
 * At most `max_launch_works` works (1 ... DEVICE_LAUNCH_WORKS_MAX) share a launch. The thread polls
 * the queue for `busy_poll_us` microseconds before it sleeps. NULL: the thread cannot start, or
 * there is no memory. */
struct dispatch *dispatch_start(struct device *device, struct queue *queue,
                                struct early_copy *early_copy, struct metrics_shard *shard,
                                uint32_t max_launch_works, uint32_t busy_poll_us);
/* Waits until all works that were pushed have ended, and ends the thread. Works that are pushed
 * later end with GEMMD_ERR_DRAINING. False: the device did not finish within `patience_ns`
 * (UINT64_MAX: any time). The thread then still runs and still uses its memory, and the process can
 * only end. NULL is allowed. */
bool dispatch_stop(struct dispatch *dispatch, uint64_t patience_ns);
/* dispatch_stop in two steps, for a dispatch whose state other threads still read. dispatch_end
 * ends the thread. dispatch_free frees the dispatch, and may be called only after dispatch_end has
 * returned true. NULL is allowed. */
bool dispatch_end(struct dispatch *dispatch, uint64_t patience_ns);
void dispatch_free(struct dispatch *dispatch);
/* Abandons the thread after a dispatch_stop or dispatch_end that returned false, since the process
 * ends. */
void dispatch_leave(struct dispatch *dispatch);

/* Asks whether the device computed a product with a known answer lately. A probe is run if the last
 * success is older than a second. True: `wait` has the answer already. False: wait->done will be
 * called with the answer from another thread, within about `timeout_ms`. A probe is subject to no
 * limit of the queue and does not wait behind works. A CPU that is computing counts as ready, and a
 * device that has stalled does not. Any thread except the dispatch thread. */
bool dispatch_probe(struct dispatch *dispatch, struct probe_wait *wait, uint32_t timeout_ms);
/* Sets how long the device may finish nothing, although works run or wait, before dispatch_probe
 * answers that the device is not ready. 0, as at the start: for ever. To be called before
 * dispatch_look. */
void dispatch_set_stall_limit(struct dispatch *dispatch, uint64_t limit_ns);
/* Looks whether the device has stalled. Called by a timer, several times a second. */
void dispatch_look(struct dispatch *dispatch, uint64_t now_ns);
/* For how long the device has been stalled, counted from the last progress; 0: the device is not
 * stalled. Any thread. */
uint64_t dispatch_stalled_ns(const struct dispatch *dispatch);
/* The results of checks so far. Any thread. */
const struct verify_counts *dispatch_verify_counts(const struct dispatch *dispatch);
/* Returns the name of a part that has made no progress since the last call: the dispatch thread,
 * or a device that has stalled. NULL: both have made progress. A CPU that computes in the dispatch
 * thread makes progress until it has stalled. Wakes the thread for the next call. Always called on
 * the thread that calls dispatch_look. */
const char *dispatch_stuck(struct dispatch *dispatch);
/* Answers the callers of dispatch_probe whose time is over. Called by a timer. */
void dispatch_expire_probes(struct dispatch *dispatch, uint64_t now_ns);

#endif
