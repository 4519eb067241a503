/*
 * stall_watch.h - notices a device that has stalled: a device that has works to compute, running or
 * waiting, and for a given time finishes no work and no part of a work.
 *
 * One thread calls stall_watch_look; any thread may call stall_watch_ns.
 */
#ifndef SERVER_SCHEDULER_STALL_WATCH_H
#define SERVER_SCHEDULER_STALL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing was seen yet. */
struct stall_watch {
    uint64_t limit_ns; /* how long a device may take for a part of its work; 0: for ever */
    uint64_t progress; /* device_progress when the watch looked last */
    uint64_t since_ns; /* when the watch last saw progress or no work; 0: not yet */
    atomic_uint_fast64_t stalled_ns;
};

/* Looks at the device: `busy` says whether works run or wait, and `progress` is device_progress. To
 * be called several times a second. */
void stall_watch_look(struct stall_watch *watch, bool busy, uint64_t progress, uint64_t now_ns);

/* For how long the device has been stalled, counted from the last progress; 0: the device is not
 * stalled. */
uint64_t stall_watch_ns(const struct stall_watch *watch);

#endif
