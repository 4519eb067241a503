/*
 * metrics_families.h - writes families of metrics, in parts that metrics_text.c puts in order.
 *
 * Internal to metrics_text.c and the files that write these families.
 */
#ifndef SERVER_OBSERVE_METRICS_FAMILIES_H
#define SERVER_OBSERVE_METRICS_FAMILIES_H

#include <stddef.h>

#include "server/observe/metrics_shard.h"
#include "server/observe/metrics_writer.h"

/* Returns the sum over all shards of the counter at `offset` bytes in a shard. */
uint64_t metrics_shards_sum(const struct metrics *metrics, size_t offset);
#define METRICS_SHARDS_SUM(metrics, field)                                                         \
    metrics_shards_sum(metrics, offsetof(struct metrics_shard, field))

/* "gemm", the name of another operation, or "copy". */
const char *metrics_task_name(enum metrics_task task);

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
