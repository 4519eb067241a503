/*
 * simulated_device.h - a device that does to each work what the test says, when it says so.
 */
#ifndef UNIT_SIMULATED_DEVICE_H
#define UNIT_SIMULATED_DEVICE_H

#include <stdatomic.h>

#include "server/device/device_ops.h"

/* What a look at a work that was submitted finds. */
enum simulated_event {
    SIMULATED_RUNNING,
    SIMULATED_DONE,
    SIMULATED_FAILED, /* an error of this work alone */
    SIMULATED_LOST    /* the error that takes the device with it */
};
enum simulated_probe {
    SIMULATED_PROBE_RIGHT,
    SIMULATED_PROBE_WRONG,
    SIMULATED_PROBE_SILENT /* stays on the device */
};

struct simulated_device {
    struct device base; /* first; to be given to whoever wants a device */
    enum simulated_event (*look)(const struct work *work);
    _Atomic enum simulated_probe probe;
    atomic_uint submitted, probes; /* how many so far */
};

/* A device with `slots` streams and some memory. `look` is asked about each work that is
 * submitted, again and again until it is not running; on the thread that polls. Ended by
 * device_close. */
struct simulated_device *simulated_device_open(uint32_t slots,
                                               enum simulated_event (*look)(const struct work *));
/* As above, but like the CPU: one stream, and a submit returns when the work has ended. */
struct simulated_device *
    simulated_device_open_computing(enum simulated_event (*look)(const struct work *));

#endif
