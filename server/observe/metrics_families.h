/*
 * metrics_families.h - writes families of metrics, in parts that metrics_text.c puts in order, and
 * the two text formats of metrics. All differences between the formats are in metrics_writer.c.
 *
 * The formats are the "Text-based format" 0.0.4 of prometheus.io, and OpenMetrics 1.0.0, in which
 * the family of a counter is named without "_total" and the family of an info without "_info".
 *
 * Internal to metrics*.c. One thread at a time.
 */
#ifndef SERVER_OBSERVE_METRICS_FAMILIES_H
#define SERVER_OBSERVE_METRICS_FAMILIES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/observe/metrics_shard.h"

/* ---- the text formats; metrics_writer.c ---- */

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
void metrics_sample_times(struct metrics_writer *writer, const char *labels,
                          const uint64_t *buckets, const uint64_t *bounds, uint32_t count,
                          uint64_t sum, const struct metrics_exemplar *exemplars);
/* Writes the value of a label, with backslash, quote and newline escaped, cut at the capacity. */
void metrics_label(char *out, size_t capacity, const char *value);

/* ---- families ---- */

/* Returns the sum over all shards of the counter at `offset` bytes in a shard. */
uint64_t metrics_shards_sum(const struct metrics *metrics, size_t offset);
#define METRICS_SHARDS_SUM(metrics, field)                                                         \
    metrics_shards_sum(metrics, offsetof(struct metrics_shard, field))

/* "gemm", the name of another operation, or "copy". */
const char *metrics_task_name(enum metrics_kind task);

/* The requests that have ended, and those that were refused. */
void metrics_write_requests(struct metrics_writer *writer, struct metrics *metrics);
void metrics_write_rejected(struct metrics_writer *writer, const struct metrics *metrics);
/* The durations of requests by operation, with exemplars if the viewer may see them. */
void metrics_write_durations(struct metrics_writer *writer, struct metrics *metrics,
                             bool shows_exemplars);
/* The durations of stages and of waits in the queue, and the sizes of launches. */
void metrics_write_histograms(struct metrics_writer *writer, struct metrics *metrics,
                              bool shows_exemplars);
/* The work of each kernel. */
void metrics_write_kernels(struct metrics_writer *writer, const struct metrics *metrics);
/* The errors of the tenants that the gauges name. */
void metrics_write_tenant_errors(struct metrics_writer *writer, const struct metrics *metrics,
                                 const struct metrics_gauges *gauges);
/* The requests and the device's time of the tenants that the gauges name. */
void metrics_write_tenant_work(struct metrics_writer *writer, const struct metrics *metrics,
                               const struct metrics_gauges *gauges);
/* The device's peaks, the figures of NVML, and the exporter of spans. */
void metrics_write_device(struct metrics_writer *writer, const struct metrics_gauges *gauges);
/* The figures of each device, if the daemon has several. */
void metrics_write_devices(struct metrics_writer *writer, const struct metrics_gauges *gauges);

#endif
