/*
 * nvml.h - the figures of GPUs that NVML reports: utilization, memory, power, temperature, clocks
 * and errors. They are sampled once a second by a thread of their own, because a call of NVML may
 * take tens of milliseconds, and hangs on a broken GPU.
 *
 * A figure that NVML does not give, for example because the GPU does not have it, is absent. So is
 * every figure that is older than NVML_FRESH_S seconds.
 */
#ifndef SERVER_OBSERVE_NVML_H
#define SERVER_OBSERVE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "server/observe/log.h"

enum { NVML_GPUS_MAX = 16, NVML_XIDS_MAX = 8, NVML_FRESH_S = 10 };

/* The figures that are one number. */
enum nvml_figure {
    NVML_UTILIZATION,        /* share of the time in which a kernel ran, 0 ... 1 */
    NVML_MEMORY_UTILIZATION, /* share of the time in which memory was read or written, 0 ... 1 */
    NVML_MEMORY_USED,        /* bytes */
    NVML_MEMORY_CAPACITY,    /* bytes */
    NVML_POWER,              /* watts */
    NVML_POWER_LIMIT,        /* watts */
    NVML_ENERGY,             /* joules since the driver was loaded */
    NVML_TEMPERATURE,        /* degrees Celsius */
    NVML_SM_CLOCK,           /* hertz */
    NVML_MEMORY_CLOCK,       /* hertz */
    NVML_SM_CLOCK_MAX,       /* hertz */
    NVML_MEMORY_CLOCK_MAX,   /* hertz */
    NVML_ECC_ERRORS_CORRECTED,
    NVML_ECC_ERRORS_UNCORRECTED,
    NVML_PCIE_SENT_RATE,     /* bytes a second */
    NVML_PCIE_RECEIVED_RATE, /* bytes a second */
    NVML_FIGURE_COUNT
};

/* An XID, which is the number of an error that the driver reports. */
struct nvml_xid {
    uint64_t xid, count; /* since the daemon started */
};

struct nvml_gpu {
    char uuid[96], name[96]; /* name is "" if it is not known */
    bool has[NVML_FIGURE_COUNT];
    double values[NVML_FIGURE_COUNT];
    bool has_throttle;
    /* Bits of NVML's clocks throttle reasons: those that hold now, and those that held at some time
     * since the daemon started. */
    uint64_t throttle, throttle_seen;
    struct nvml_xid xids[NVML_XIDS_MAX];
    uint32_t xid_count;
};

/* The last sample. */
struct nvml_sample {
    bool up; /* NVML answers: the sample is fresh */
    struct nvml_gpu gpus[NVML_GPUS_MAX];
    uint32_t count; /* 0 if NVML is not up */
};

struct nvml;

/* Loads NVML and starts the thread. Samples the GPUs with these UUIDs, at most the first
 * NVML_GPUS_MAX of them; if `count` is 0, the GPUs of the host. `log` is borrowed until nvml_stop.
 * NULL: the host has no NVML, which the log says, or there is no memory or no thread. */
struct nvml *nvml_start(const char *const uuids[], uint32_t count, struct log *log);
/* Ends the thread. A thread that NVML blocks is left behind after half a second. NULL is allowed.
 */
void nvml_stop(struct nvml *nvml);
/* Copies the last sample. Any thread; never waits for NVML. */
void nvml_read(struct nvml *nvml, struct nvml_sample *sample);

#endif
