/*
 * latency.h - a histogram of durations whose percentiles are within 1.6 % at any size. Buckets grow
 * with the values: 64 to each power of two. After HdrHistogram (Gil Tene).
 */
#ifndef GEMMCTL_LATENCY_H
#define GEMMCTL_LATENCY_H

#include <stdint.h>

enum { LATENCY_STEPS = 64, LATENCY_BUCKETS = 64 * LATENCY_STEPS };

struct latency {
    uint64_t counts[LATENCY_BUCKETS];
    uint64_t count, max_us;
};

/* Adds a duration in microseconds. */
void latency_add(struct latency *latency, uint64_t us);
/* The duration, in microseconds, that `percent` of all durations did not exceed; 0 if there are no
 * durations. */
uint64_t latency_percentile(const struct latency *latency, double percent);
/* Adds the durations of `other`. */
void latency_join(struct latency *latency, const struct latency *other);
/* The largest duration, in microseconds, that a bucket counts. */
uint64_t latency_bucket_end(uint32_t bucket);

#endif
