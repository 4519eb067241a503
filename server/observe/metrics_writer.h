/*
 * metrics_writer.h - writes the two text formats of metrics. All differences between the formats
 * are in this module.
 *
 * The formats are the "Text-based format" 0.0.4 of prometheus.io, and OpenMetrics 1.0.0, in which
 * the family of a counter is named without "_total" and the family of an info without "_info". Used
 * by metrics*.c only. One thread at a time.
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

/* Starts a family: writes HELP and TYPE. The samples that follow belong to the family. */
void metrics_family(struct metrics_writer *writer, const char *name, enum metrics_type type,
                    const char *help);
/* Writes one sample. `labels` is "" or like `op="gemm",code="200"`. */
void metrics_sample(struct metrics_writer *writer, const char *labels, uint64_t value);
/* Writes one sample in seconds. */
void metrics_sample_seconds(struct metrics_writer *writer, const char *labels, uint64_t ns);
/* Writes one sample of a number that may exceed 64 bits or have a fraction. */
void metrics_sample_real(struct metrics_writer *writer, const char *labels, double value);
/* Writes the samples of a histogram. `buckets` are not cumulative: `count` of them, and one more
 * for +Inf. Bounds and sum are divided by `scale`: 1000000000 for nanoseconds, 1 for numbers. */
void metrics_sample_histogram(struct metrics_writer *writer, const char *labels,
                              const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                              uint64_t sum, uint64_t scale);
/* As metrics_sample_histogram, in seconds from nanoseconds, with exemplars: count + 1 of them, or
 * NULL. The text format 0.0.4 has no exemplars. */
struct metrics_exemplar;
void metrics_sample_times(struct metrics_writer *writer, const char *labels,
                          const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                          uint64_t sum, const struct metrics_exemplar *exemplars);
/* Writes the value of a label, with backslash, quote and newline escaped, cut at the capacity. */
void metrics_label(char *out, size_t capacity, const char *value);

#endif
