/*
 * probe.h - a readiness probe: a product with a known answer, which shows whether the device still
 * computes.
 *
 * Any thread may ask. The dispatch thread runs one probe at a time, ahead of the queue. Callers
 * that ask while a probe is running share its answer, and for a second after a correct answer every
 * caller gets that answer at once.
 */
#ifndef SERVER_SCHEDULER_PROBE_H
#define SERVER_SCHEDULER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"

struct probe;

/* Creates a probe, with its host memory and device memory. NULL: out of memory. */
struct probe *probe_create(struct device *device);
/* NULL is allowed. */
void probe_destroy(struct probe *probe);

enum { PROBE_REASON_MAX = 160 };

/* A caller that waits for an answer. The struct is part of the caller's own struct, and belongs to
 * the probe from probe_ask until `done` is called. */
struct probe_wait {
    /* Called once, by the thread that has the answer, with no lock held. */
    void (*done)(struct probe_wait *wait);
    void *context;                 /* the caller's own */
    bool right;                    /* the device computed the known answer */
    char reason[PROBE_REASON_MAX]; /* why `right` is false; "" if `right` is true */

    /* Used by the probe. */
    struct probe_wait *next;
    uint64_t until_ns;
    uint32_t timeout_ms;
};

/* Asks for an answer. True: the last answer was right and is less than a second old; `wait` has
 * that answer, and `done` is not called. False: `done` will be called with the next answer, or by
 * probe_expire. probe_ask calls `wake` with `argument` to make the dispatch thread call probe_due.
 * Any thread. */
bool probe_ask(struct probe *probe, struct probe_wait *wait, uint32_t timeout_ms,
               void (*wake)(void *argument), void *argument);
/* Answers the callers whose time is over with `right`. Any thread. */
void probe_expire(struct probe *probe, uint64_t now_ns, bool right);

/* --- For the dispatch thread. */

/* Whether a caller has asked and no probe is running. */
bool probe_due(const struct probe *probe);
/* Starts a probe: returns the work to submit now. */
struct work *probe_begin(struct probe *probe);
/* Whether a probe is running. */
bool probe_running(const struct probe *probe);
/* Ends a probe, if `work`, which the device has finished, is the probe's work. False: the work is
 * another one. */
bool probe_end(struct probe *probe, const struct work *work);

#endif
