/*
 * history.h - the last 15 minutes of the daemon, as one sample a second.
 *
 * One thread adds samples; any thread reads. The memory is allocated at the start and never grows:
 * HISTORY_SAMPLES samples of about 250 bytes each. A lock is held only to copy samples.
 */
#ifndef SERVER_OBSERVE_HISTORY_H
#define SERVER_OBSERVE_HISTORY_H

#include "server/observe/metrics_totals.h"

enum { HISTORY_SAMPLES = 900 };

/* One second of the daemon. All counts are of this second. */
struct history_sample {
    uint64_t number; /* 1 for the first sample of the daemon */
    double time_s;   /* at the end of the second, since the epoch */
    double seconds;  /* how long the second was */
    uint32_t requests[METRICS_OP_COUNT];
    uint32_t refused, failed, client_errors;
    uint32_t latency[METRICS_LATENCY_BUCKETS];
    float stage_ms[METRICS_COMPUTING_OPS][METRICS_STAGE_COUNT]; /* sums over the requests */
    float queue_mean, queue_max; /* requests that waited for the device */
    float queue_share;           /* of --queue-requests or --queue-bytes, whichever is used more */
    float busy;                  /* share of the time in which the devices computed, 0 ... 1 */
    double flops, received_bytes, sent_bytes;
    bool ready, draining;
};

struct history;

struct history *history_create(void); /* NULL: out of memory */
void history_destroy(struct history *history);
/* Adds a sample and sets its number. One thread. */
void history_add(struct history *history, const struct history_sample *sample);
/* The number of the newest sample; 0: there is none. Any thread; takes no lock. */
uint64_t history_newest(const struct history *history);
/* Copies the oldest samples whose number is greater than `after`, `capacity` at most. Returns how
 * many were copied. Any thread. */
uint32_t history_read(struct history *history, uint64_t after, struct history_sample *samples,
                      uint32_t capacity);

#endif
