/*
 * simulated_device.h - a device that gives each work the result that a test chooses, at the time
 * that the test chooses.
 */
#ifndef UNIT_SIMULATED_DEVICE_H
#define UNIT_SIMULATED_DEVICE_H

#include <stdatomic.h>

#include "server/device/device_ops.h"

/* The result of a submit, or of a poll of a work that was submitted. */
enum simulated_event {
    SIMULATED_RUNNING,
    SIMULATED_DONE,
    SIMULATED_FAILED, /* an error of this work and of all works of its launch */
    SIMULATED_LOST    /* an error that loses the device */
};
enum simulated_probe {
    SIMULATED_PROBE_RIGHT,
    SIMULATED_PROBE_WRONG,
    SIMULATED_PROBE_SILENT /* stays on the device */
};

/* A work, and what happens to it on the simulated device. */
struct simulated_work {
    struct work work;                    /* first */
    enum simulated_event at_submit;      /* it starts RUNNING, or has ended so at once; */
    atomic_bool held;                    /* runs while it is held, */
    atomic_uint looks;                   /* and then for so many looks more; */
    _Atomic enum simulated_event at_end; /* ends so */
};

/* A piece that was started and has not ended. Its bytes move when it ends, so that whoever takes
 * the memory away before finds out. */
struct simulated_copy {
    struct copy_in_piece piece;
    uint32_t copy_stream;
};
enum { SIMULATED_COPIES_MAX = 256 };
/* The leading dimension that it wants for rows of so many elements, if the kernel does. */
#define SIMULATED_LEADING(columns) (((columns) + 63) / 64 * 64)

struct simulated_device {
    struct device base; /* first; to be given to whoever wants a device */
    enum simulated_event (*look)(const struct work *work);
    bool scripted; /* all works are simulated_work */
    _Atomic enum simulated_probe probe;
    atomic_uint submitted, launches, probes; /* how many so far */

    /* Of one that copies early. What becomes of a piece: RUNNING: it goes on until this is changed;
     * FAILED and LOST: it does not start, and the latter takes the device with it. */
    _Atomic enum simulated_event copies;
    unsigned
        slowness; /* of so many and one looks at a copy_stream, one finds that its copies ended */
    atomic_uint asked;     /* looks so far */
    unsigned char *memory; /* the arena's span */
    struct simulated_copy under_way[SIMULATED_COPIES_MAX];
    uint32_t under_way_count;
    atomic_uint_fast64_t early_bytes, late_bytes; /* started, before a submit and in one */
};

/* A device with `slots` streams, besides those for shared launches, and some memory. `look` is
 * asked about each work that is submitted, again and again until it is not running; on the thread
 * that polls. Ended by device_close. */
struct simulated_device *simulated_device_open(uint32_t slots,
                                               enum simulated_event (*look)(const struct work *));
/* As above, but each work says itself what becomes of it. */
struct simulated_device *simulated_device_open_scripted(uint32_t slots);
/* As the first, or as above if `look` is NULL, with memory of its own into which operands are
 * copied, early too (device_copy.h). */
struct simulated_device *
simulated_device_open_copying(uint32_t slots, uint64_t memory_bytes,
                              enum simulated_event (*look)(const struct work *));
/* As the first, but like the CPU: one stream, and a submit returns when the work has ended. */
struct simulated_device *
    simulated_device_open_computing(enum simulated_event (*look)(const struct work *));

#endif
