/* The families about the device's hardware: its peaks, and the figures that NVML reports. */
#include <inttypes.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/observe/metrics_families.h"
#include "server/observe/nvml.h"

enum { LABELS_MAX = 400, LABEL_MAX = 160 };

struct gpu_family {
    const char *name, *help, *label; /* label: a second one after uuid, or "" */
    enum metrics_type type;
    enum nvml_figure figure;
};

/* Entries of one family follow each other. */
static const struct gpu_family gpu_families[] = {
    {"gemmd_gpu_utilization_ratio", "Share of the time in which a kernel ran on the GPU.", "",
     METRICS_GAUGE, NVML_UTILIZATION},
    {"gemmd_gpu_memory_utilization_ratio",
     "Share of the time in which the memory of the GPU was read or written.", "", METRICS_GAUGE,
     NVML_MEMORY_UTILIZATION},
    {"gemmd_gpu_memory_used_bytes", "Bytes of the GPU's memory that all processes use.", "",
     METRICS_GAUGE, NVML_MEMORY_USED},
    {"gemmd_gpu_memory_capacity_bytes", "Bytes of the GPU's memory.", "", METRICS_GAUGE,
     NVML_MEMORY_CAPACITY},
    {"gemmd_gpu_power_watts", "Power that the GPU draws.", "", METRICS_GAUGE, NVML_POWER},
    {"gemmd_gpu_power_limit_watts", "Power that the GPU is allowed to draw.", "", METRICS_GAUGE,
     NVML_POWER_LIMIT},
    {"gemmd_gpu_energy_joules", "Energy that the GPU has drawn since its driver was loaded.", "",
     METRICS_COUNTER, NVML_ENERGY},
    {"gemmd_gpu_temperature_celsius", "Temperature of the GPU.", "", METRICS_GAUGE,
     NVML_TEMPERATURE},
    {"gemmd_gpu_clock_hertz", "Frequency of a clock of the GPU.", ",clock=\"sm\"", METRICS_GAUGE,
     NVML_SM_CLOCK},
    {"gemmd_gpu_clock_hertz", "", ",clock=\"memory\"", METRICS_GAUGE, NVML_MEMORY_CLOCK},
    {"gemmd_gpu_clock_max_hertz", "Highest frequency of a clock of the GPU.", ",clock=\"sm\"",
     METRICS_GAUGE, NVML_SM_CLOCK_MAX},
    {"gemmd_gpu_clock_max_hertz", "", ",clock=\"memory\"", METRICS_GAUGE, NVML_MEMORY_CLOCK_MAX},
    {"gemmd_gpu_ecc_errors", "Errors of the GPU's memory since its driver was loaded.",
     ",kind=\"corrected\"", METRICS_COUNTER, NVML_ECC_ERRORS_CORRECTED},
    {"gemmd_gpu_ecc_errors", "", ",kind=\"uncorrected\"", METRICS_COUNTER,
     NVML_ECC_ERRORS_UNCORRECTED},
    {"gemmd_gpu_pcie_bytes_per_second", "Bytes a second on the PCIe link of the GPU.",
     ",direction=\"sent\"", METRICS_GAUGE, NVML_PCIE_SENT_RATE},
    {"gemmd_gpu_pcie_bytes_per_second", "", ",direction=\"received\"", METRICS_GAUGE,
     NVML_PCIE_RECEIVED_RATE},
};

/* The bits of NVML's clocks throttle reasons. */
static const struct {
    uint64_t bit;
    const char *name;
} throttle_reasons[] = {
    {0x1, "gpu_idle"},    {0x2, "applications_clocks"}, {0x4, "sw_power_cap"},
    {0x8, "hw_slowdown"}, {0x10, "sync_boost"},         {0x20, "sw_thermal"},
    {0x40, "hw_thermal"}, {0x80, "hw_power_brake"},     {0x100, "display_clocks"},
};

static void uuid_label(const struct nvml_gpu *gpu, const char *more, char out[LABELS_MAX])
{
    char uuid[LABEL_MAX];
    metrics_label(uuid, sizeof uuid, gpu->uuid);
    snprintf(out, LABELS_MAX, "uuid=\"%s\"%s", uuid, more);
}

static bool any_has(const struct nvml_sample *sample, enum nvml_figure figure)
{
    for (uint32_t i = 0; i < sample->count; i++)
        if (sample->gpus[i].has[figure])
            return true;
    return false;
}

static void write_figures(struct metrics_writer *writer, const struct nvml_sample *sample)
{
    const char *begun = "";
    for (size_t f = 0; f < sizeof gpu_families / sizeof gpu_families[0]; f++) {
        const struct gpu_family *family = &gpu_families[f];
        if (!any_has(sample, family->figure))
            continue;
        if (strcmp(begun, family->name) != 0) {
            const struct gpu_family *first = family;
            while (first->help[0] == '\0')
                first--;
            metrics_family(writer, family->name, family->type, first->help);
        }
        begun = family->name;
        for (uint32_t i = 0; i < sample->count; i++) {
            char labels[LABELS_MAX];
            if (!sample->gpus[i].has[family->figure])
                continue;
            uuid_label(&sample->gpus[i], family->label, labels);
            metrics_sample_real(writer, labels, sample->gpus[i].values[family->figure]);
        }
    }
}

static void write_throttle(struct metrics_writer *writer, const struct nvml_sample *sample)
{
    char labels[LABELS_MAX], more[LABEL_MAX];
    metrics_family(writer, "gemmd_gpu_throttled", METRICS_GAUGE,
                   "1 while the clocks of the GPU are lowered for a reason, else 0. A reason that "
                   "was never seen has no series.");
    for (uint32_t i = 0; i < sample->count; i++) {
        const struct nvml_gpu *gpu = &sample->gpus[i];
        for (size_t r = 0; r < sizeof throttle_reasons / sizeof throttle_reasons[0]; r++) {
            if (!gpu->has_throttle || (gpu->throttle_seen & throttle_reasons[r].bit) == 0)
                continue;
            snprintf(more, sizeof more, ",reason=\"%s\"", throttle_reasons[r].name);
            uuid_label(gpu, more, labels);
            metrics_sample(writer, labels, (gpu->throttle & throttle_reasons[r].bit) != 0);
        }
    }
}

static void write_xids(struct metrics_writer *writer, const struct nvml_sample *sample)
{
    char labels[LABELS_MAX], more[LABEL_MAX];
    metrics_family(writer, "gemmd_gpu_xid_errors", METRICS_COUNTER,
                   "Errors of the GPU that its driver reported since the daemon started, by XID.");
    for (uint32_t i = 0; i < sample->count; i++) {
        const struct nvml_gpu *gpu = &sample->gpus[i];
        for (uint32_t x = 0; x < gpu->xid_count; x++) {
            snprintf(more, sizeof more, ",xid=\"%" PRIu64 "\"", gpu->xids[x].xid);
            uuid_label(gpu, more, labels);
            metrics_sample(writer, labels, gpu->xids[x].count);
        }
    }
}

static void write_gpus(struct metrics_writer *writer, const struct nvml_sample *sample)
{
    char labels[LABELS_MAX], name[LABEL_MAX], more[LABEL_MAX + 16];
    metrics_family(writer, "gemmd_nvml_up", METRICS_GAUGE,
                   "1 if NVML has reported figures of the GPU within the last 10 seconds, else 0.");
    metrics_sample(writer, "", sample->up);
    if (sample->count == 0)
        return;
    metrics_family(writer, "gemmd_gpu", METRICS_INFO, "A GPU that NVML reports.");
    for (uint32_t i = 0; i < sample->count; i++) {
        metrics_label(name, sizeof name, sample->gpus[i].name);
        snprintf(more, sizeof more, ",name=\"%s\"", name);
        uuid_label(&sample->gpus[i], more, labels);
        metrics_sample(writer, labels, 1);
    }
    write_figures(writer, sample);
    write_throttle(writer, sample);
    write_xids(writer, sample);
}

static void write_peaks(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    bool begun = false;
    for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++) {
        char labels[LABELS_MAX];
        if (gauges->peak_flops[dtype] <= 0)
            continue;
        if (!begun)
            metrics_family(writer, "gemmd_device_peak_flops_per_second", METRICS_GAUGE,
                           "Most operations a second that the device can do on operands of a type "
                           "at its highest clock.");
        begun = true;
        snprintf(labels, sizeof labels, "dtype=\"%s\"", dtype_name((enum gemmd_dtype)dtype));
        metrics_sample_real(writer, labels, gauges->peak_flops[dtype]);
    }
    if (gauges->peak_memory_bytes > 0) {
        metrics_family(writer, "gemmd_device_peak_memory_bytes_per_second", METRICS_GAUGE,
                       "Most bytes a second that the device's memory can be read or written at.");
        metrics_sample_real(writer, "", gauges->peak_memory_bytes);
    }
}

void metrics_write_device(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    write_peaks(writer, gauges);
    if (gauges->gpus != NULL)
        write_gpus(writer, gauges->gpus);
    if (!gauges->exports_spans)
        return;
    metrics_family(writer, "gemmd_otlp_spans_sent", METRICS_COUNTER,
                   "Spans that the collector of --otlp-endpoint has taken.");
    metrics_sample(writer, "", gauges->spans_sent);
    metrics_family(writer, "gemmd_otlp_spans_dropped", METRICS_COUNTER,
                   "Spans dropped because the collector of --otlp-endpoint did not take them.");
    metrics_sample(writer, "", gauges->spans_dropped);
}
