/*
 * metrics_writer.h - the two text formats: what differs between them is here and nowhere else.
 *
 * prometheus.io "Text-based format" 0.0.4, and OpenMetrics 1.0.0, which names a counter's family
 * without "_total" and an info's without "_info". Internal to metrics*.c; one thread.
 */
#ifndef SERVER_OBSERVE_METRICS_WRITER_H
#define SERVER_OBSERVE_METRICS_WRITER_H

#include <stdint.h>
#include <stdio.h>

#include "server/observe/metrics.h"

enum metrics_type {
    METRICS_COUNTER, /* samples end in "_total" */
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
    METRICS_INFO /* samples end in "_info" */
};

struct metrics_writer {
    FILE *out;
    enum metrics_format format;
    const char *name; /* of the family that is being written, without suffix */
    enum metrics_type type;
};

/* HELP and TYPE; the samples that follow belong to it. */
void metrics_family(struct metrics_writer *writer, const char *name, enum metrics_type type,
                    const char *help);
/* One sample. `labels` is "" or `op="gemm",code="200"`. */
void metrics_sample(struct metrics_writer *writer, const char *labels, uint64_t value);
/* One sample in seconds. */
void metrics_sample_seconds(struct metrics_writer *writer, const char *labels, uint64_t ns);
/* One sample of a number that has outgrown 64 bits, or has a fraction. */
void metrics_sample_real(struct metrics_writer *writer, const char *labels, double value);
/* A histogram's samples from buckets that are not cumulative, `count` and one more for +Inf.
 * `scale` divides bounds and sum: 1000000000 for nanoseconds, 1 for counts. */
void metrics_sample_histogram(struct metrics_writer *writer, const char *labels,
                              const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                              uint64_t sum, uint64_t scale);
/* A label's value with backslash, quote and line end escaped; cut at the capacity. */
void metrics_label(char *out, size_t capacity, const char *value);

#endif
