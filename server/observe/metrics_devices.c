/* The families of each device, which a daemon with several devices has. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "server/observe/metrics_families.h"

enum { LABELS_MAX = 128 };

/* How a value is kept in struct metrics_device. */
enum value_kind { VALUE_LOST, VALUE_U32, VALUE_U64, VALUE_NS, VALUE_REAL };

static const struct {
    const char *name, *help;
    enum metrics_type type;
    enum value_kind kind;
    size_t offset;
} families[] = {
#define VALUE(name, type, kind, field, help)                                                       \
    {                                                                                              \
        name, help, type, kind, offsetof(struct metrics_device, field)                             \
    }
    VALUE("gemmd_per_device_lost", METRICS_GAUGE, VALUE_LOST, lost,
          "1 if the device is lost, so that the daemon computes on the others, else 0."),
    VALUE("gemmd_per_device_requests_waiting", METRICS_GAUGE, VALUE_U32, waiting,
          "Requests that wait for the device."),
    VALUE("gemmd_per_device_requests_running", METRICS_GAUGE, VALUE_U32, running,
          "Requests that the device computes."),
    VALUE("gemmd_per_device_memory_used_bytes", METRICS_GAUGE, VALUE_U64, used_bytes,
          "Bytes of the device's memory that accepted requests use."),
    VALUE("gemmd_per_device_memory_capacity_bytes", METRICS_GAUGE, VALUE_U64, capacity_bytes,
          "Bytes of the device's memory that accepted requests can use."),
    VALUE("gemmd_per_device_tensor_used_bytes", METRICS_GAUGE, VALUE_U64, tensor_used_bytes,
          "Bytes of the device's memory that resident tensors use."),
    VALUE("gemmd_per_device_tensor_capacity_bytes", METRICS_GAUGE, VALUE_U64, tensor_capacity_bytes,
          "Bytes of the device's memory for resident tensors."),
    VALUE("gemmd_per_device_launches", METRICS_COUNTER, VALUE_U64, launches,
          "Launches of computations on the device."),
    VALUE("gemmd_per_device_busy_seconds", METRICS_COUNTER, VALUE_NS, busy_ns,
          "Time that the device has spent on launches."),
    VALUE("gemmd_per_device_flops", METRICS_COUNTER, VALUE_REAL, flops,
          "Floating-point operations of results that the device has computed."),
    VALUE("gemmd_per_device_link_bytes", METRICS_COUNTER, VALUE_U64, link_bytes,
          "Bytes of tensors that were copied to the device from another."),
#undef VALUE
};

static void write_value(struct metrics_writer *writer, const char *labels, enum value_kind kind,
                        const void *value)
{
    switch (kind) {
    case VALUE_LOST:
        metrics_sample(writer, labels, *(const bool *)value);
        break;
    case VALUE_U32:
        metrics_sample(writer, labels, *(const uint32_t *)value);
        break;
    case VALUE_U64:
        metrics_sample(writer, labels, *(const uint64_t *)value);
        break;
    case VALUE_NS:
        metrics_sample_seconds(writer, labels, *(const uint64_t *)value);
        break;
    case VALUE_REAL:
        metrics_sample_real(writer, labels, *(const double *)value);
        break;
    }
}

void metrics_write_devices(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    for (size_t i = 0; i < sizeof families / sizeof *families && gauges->device_count > 0; i++) {
        metrics_family(writer, families[i].name, families[i].type, families[i].help);
        for (uint32_t j = 0; j < gauges->device_count; j++) {
            const struct metrics_device *device = &gauges->devices[j];
            char labels[LABELS_MAX];
            snprintf(labels, sizeof labels, "device=\"%" PRId32 "\",uuid=\"%.64s\"", device->number,
                     device->uuid);
            write_value(writer, labels, families[i].kind,
                        (const char *)device + families[i].offset);
        }
    }
}
