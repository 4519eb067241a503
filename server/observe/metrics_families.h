/* metrics_families.h - writes the families of kernels, tenants' errors and the device. Used by
 * metrics_text.c only. */
#ifndef SERVER_OBSERVE_METRICS_FAMILIES_H
#define SERVER_OBSERVE_METRICS_FAMILIES_H

#include "server/observe/metrics_shard.h"
#include "server/observe/metrics_writer.h"

/* "gemm", the name of another operation, or "copy". */
const char *metrics_task_name(enum metrics_task task);

/* What each kernel has computed. */
void metrics_write_kernels(struct metrics_writer *writer, const struct metrics *metrics);
/* The errors of the tenants that the gauges name. */
void metrics_write_tenant_errors(struct metrics_writer *writer, const struct metrics *metrics,
                                 const struct metrics_gauges *gauges);
/* The device's peaks, the figures of NVML, and the exporter of spans. */
/* Those of each device, of a daemon with several. */
void metrics_write_devices(struct metrics_writer *writer, const struct metrics_gauges *gauges);
void metrics_write_device(struct metrics_writer *writer, const struct metrics_gauges *gauges);

#endif
