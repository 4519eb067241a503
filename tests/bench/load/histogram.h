/*
 * histogram.h - latencies in buckets of at most 1/64 of their value, 1 ns to 70 minutes, as in
 * HdrHistogram (G. Tene). Owned by one thread; added up when the threads are over.
 */
#ifndef TESTS_BENCH_LOAD_HISTOGRAM_H
#define TESTS_BENCH_LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 64 * 38 };

struct histogram {
    uint64_t count;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t ns);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value that `share` (0 ... 1) of all are not above, in us; 0 if there is none. */
double histogram_percentile_us(const struct histogram *histogram, double share);

#endif
