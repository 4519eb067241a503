/* The families about devices: what each kernel has computed, the figures of each of several
 * devices, and the hardware, with its peaks and the figures that NVML reports. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "server/observe/metrics_families.h"
#include "server/observe/nvml.h"

enum { LABELS_MAX = 400, LABEL_MAX = 160 };

/* ---- kernels ---- */

/* The sums over all shards for one kernel, task and type. */
struct kernel_total {
    const char *name;
    enum metrics_kind task;
    enum gemmd_dtype dtype;
    uint64_t works, busy_ns;
    double flops, bytes;
};

const char *metrics_task_name(enum metrics_kind task)
{
    return task == METRICS_KIND_COPY ? "copy" : operation_table[(int)task]->name;
}

/* Adds the counts of one kernel to the totals. Kernels for which the table has no place are added
 * up in its last entry. */
static void add_kernel(struct kernel_total *totals, uint32_t *count,
                       const struct metrics_kernel *kernel, bool is_rest)
{
    uint32_t i = is_rest ? METRICS_KERNELS_MAX : 0;
    while (i < *count && i < METRICS_KERNELS_MAX &&
           (strcmp(totals[i].name, kernel->name) != 0 || totals[i].task != kernel->task ||
            totals[i].dtype != kernel->dtype))
        i++;
    if (i < METRICS_KERNELS_MAX && i == *count)
        totals[(*count)++] = (struct kernel_total){
            .name = kernel->name, .task = kernel->task, .dtype = kernel->dtype};
    totals[i].works += atomic_load_explicit(&kernel->tally.works, memory_order_relaxed);
    totals[i].busy_ns += atomic_load_explicit(&kernel->tally.busy_ns, memory_order_relaxed);
    totals[i].flops += atomic_load_explicit(&kernel->tally.flops, memory_order_relaxed);
    totals[i].bytes += atomic_load_explicit(&kernel->tally.bytes, memory_order_relaxed);
}

static void kernel_labels(const struct kernel_total *kernel, char out[LABELS_MAX])
{
    if (kernel->name == NULL)
        snprintf(out, LABELS_MAX, "op=\"\",kernel=\"other\",dtype=\"\"");
    else
        snprintf(out, LABELS_MAX, "op=\"%s\",kernel=\"%s\",dtype=\"%s\"",
                 metrics_task_name(kernel->task), kernel->name, dtype_name(kernel->dtype));
}

void metrics_write_kernels(struct metrics_writer *writer, const struct metrics *metrics)
{
    struct kernel_total totals[METRICS_KERNELS_MAX + 1] = {{.works = 0}};
    char labels[LABELS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const struct metrics_shard *shard = &metrics->shards[i];
        const uint32_t kernels = atomic_load_explicit(&shard->kernel_count, memory_order_acquire);
        for (uint32_t k = 0; k < kernels; k++)
            add_kernel(totals, &count, &shard->kernels[k], k == METRICS_KERNELS_MAX);
    }
    if (totals[METRICS_KERNELS_MAX].works > 0)
        totals[count++] = totals[METRICS_KERNELS_MAX];
    metrics_family(writer, "gemmd_kernel_works", METRICS_COUNTER,
                   "Problems computed, by operation, kernel and operand type. Combinations of the "
                   "three after the first 8 are counted together, as kernel other.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample(writer, labels, totals[i].works);
    }
    metrics_family(writer, "gemmd_kernel_flops", METRICS_COUNTER,
                   "Floating-point operations of computed results, by kernel and operand type.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_real(writer, labels, totals[i].flops);
    }
    metrics_family(writer, "gemmd_kernel_moved_bytes", METRICS_COUNTER,
                   "Bytes of operands and results, each counted once, by kernel and operand type.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_real(writer, labels, totals[i].bytes);
    }
    metrics_family(writer, "gemmd_kernel_busy_seconds", METRICS_COUNTER,
                   "Time of launches, by kernel and operand type. The time of a shared launch is "
                   "divided evenly among its works.");
    for (uint32_t i = 0; i < count; i++) {
        kernel_labels(&totals[i], labels);
        metrics_sample_seconds(writer, labels, totals[i].busy_ns);
    }
}

/* ---- several devices ---- */

/* How a value is kept in struct metrics_device. */
enum value_kind { VALUE_LOST, VALUE_U32, VALUE_U64, VALUE_NS, VALUE_REAL };

static const struct {
    const char *name, *help;
    enum metrics_type type;
    enum value_kind kind;
    size_t offset;
} device_families[] = {
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
    for (size_t i = 0;
         i < sizeof device_families / sizeof *device_families && gauges->device_count > 0; i++) {
        metrics_family(writer, device_families[i].name, device_families[i].type,
                       device_families[i].help);
        for (uint32_t j = 0; j < gauges->device_count; j++) {
            const struct metrics_device *device = &gauges->devices[j];
            char labels[LABELS_MAX];
            snprintf(labels, sizeof labels, "device=\"%" PRId32 "\",uuid=\"%.64s\"", device->number,
                     device->uuid);
            write_value(writer, labels, device_families[i].kind,
                        (const char *)device + device_families[i].offset);
        }
    }
}

/* ---- the hardware ---- */

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
