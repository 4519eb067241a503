/*
 * probe.h - a product with a known answer that shows whether the device still computes.
 *
 * Anyone may ask; the dispatch thread runs it, one at a time, past the queue. Those who ask while
 * one is on its way share its answer, and so does everybody for a second after a right one.
 */
#ifndef SERVER_SCHEDULER_PROBE_H
#define SERVER_SCHEDULER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/device/device.h"

struct probe;

/* Takes the probe's memory, host and device. NULL if there is none. */
struct probe *probe_create(struct device *device);
void probe_destroy(struct probe *probe); /* NULL is allowed */

enum { PROBE_REASON_MAX = 160 };

/* Someone who asked. Its owner's, and in the probe's hands from asking until `done`. */
struct probe_wait {
    /* Whoever brings the answer calls it, once, with no lock held; the wait is its owner's again.
     */
    void (*done)(struct probe_wait *wait);
    bool right;
    char reason[PROBE_REASON_MAX]; /* why not; "" if it is */

    struct probe_wait *next; /* the probe's, from here on */
    uint64_t until_ns;
    uint32_t timeout_ms;
};

/* Any thread. Tells the last answer if it was right and is less than a second old: true, and `done`
 * is not called. Else false, and `done` will be, with the next answer or by probe_expire. `wake`
 * (with its argument) makes the dispatch thread look at probe_due. */
bool probe_ask(struct probe *probe, struct probe_wait *wait, uint32_t timeout_ms,
               void (*wake)(void *argument), void *argument);
/* Any thread: answers those whose time is over, with `right`. */
void probe_expire(struct probe *probe, uint64_t now_ns, bool right);

/* Dispatch thread: whether someone asked and no probe is on its way. */
bool probe_due(const struct probe *probe);
/* Dispatch thread: the work to submit now. */
struct work *probe_begin(struct probe *probe);
bool probe_running(const struct probe *probe);
/* Dispatch thread: takes back a work that the device ended; false if it is not the probe's. */
bool probe_end(struct probe *probe, const struct work *work);

#endif
