/*
 * history.h - the last 15 minutes of the daemon, as one sample a second, and the last 6 hours, as
 * one sample for each 15 seconds.
 *
 * One thread adds the samples of seconds, of which the history makes the longer ones; any thread
 * reads. The memory is allocated at the start and never grows: about 300 bytes for each sample. A
 * lock is held only to copy samples.
 */
#ifndef SERVER_OBSERVE_HISTORY_H
#define SERVER_OBSERVE_HISTORY_H

#include "server/observe/metrics_totals.h"

/* HISTORY_LONG_SECONDS samples of seconds, one after another, make a long sample. */
enum { HISTORY_SAMPLES = 900, HISTORY_LONG_SECONDS = 15, HISTORY_LONG_SAMPLES = 1440 };
/* Most samples of either kind. */
enum { HISTORY_MOST = HISTORY_LONG_SAMPLES };

enum history_kind { HISTORY_SECONDS, HISTORY_LONG };

/* One second of the daemon, or HISTORY_LONG_SECONDS seconds. All counts are of this time. */
struct history_sample {
    uint64_t number; /* 1 for the first sample of the daemon of the same kind */
    double time_s;   /* at the end of the sample, since the epoch */
    double seconds;  /* how long the sample was */
    uint32_t requests[METRICS_OP_COUNT];
    uint32_t refused, failed, client_errors;
    uint32_t latency[METRICS_LATENCY_BUCKETS];
    float stage_ms[METRICS_COMPUTING_OPS][METRICS_STAGE_COUNT]; /* sums over the requests */
    float queue_mean, queue_max; /* requests that waited for the device */
    float queue_share;           /* of --queue-requests or --queue-bytes, whichever is used more */
    float busy;                  /* share of the time in which the devices computed, 0 ... 1 */
    double flops, received_bytes, sent_bytes;
    /* Processors that this process and all processes of the host kept busy, on average, and the
     * processors of the host. 0: not known. */
    float cpu_process, cpu_host;
    uint32_t cpus;
    /* Memory that this process and the whole host have in use, and the memory of the host, in
     * bytes. Of a long sample the most. 0: not known. */
    double memory_process, memory_host, memory_capacity;
    bool ready, draining; /* at the end of the sample */
};

struct history;

struct history *history_create(void); /* NULL: out of memory */
void history_destroy(struct history *history);
/* Adds the sample of a second and sets its number. One thread. */
void history_add(struct history *history, const struct history_sample *sample);
/* The number of the newest sample of a kind; 0: there is none. Any thread; takes no lock. */
uint64_t history_newest(const struct history *history, enum history_kind kind);
/* Copies the oldest samples of a kind whose number is greater than `after`, `capacity` at most.
 * Returns how many were copied. Any thread. */
uint32_t history_read(struct history *history, enum history_kind kind, uint64_t after,
                      struct history_sample *samples, uint32_t capacity);

#endif
