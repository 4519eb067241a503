/* The families of what is counted of tenants. */
#include "proto/error.h"
#include "server/observe/metrics_families.h"

enum { LABELS_MAX = 160 };

static uint64_t errors_of(const struct metrics *metrics, const struct metrics_tenant *tenant,
                          int code)
{
    uint64_t sum = 0;
    for (uint32_t i = tenant->first; i < tenant->end && i < metrics->tenant_count; i++)
        sum += atomic_load_explicit(
            &metrics->tenant_errors[(size_t)i * GEMMD_ERR_COUNT + (size_t)code],
            memory_order_relaxed);
    return sum;
}

void metrics_write_tenant_errors(struct metrics_writer *writer, const struct metrics *metrics,
                                 const struct metrics_gauges *gauges)
{
    if (gauges->tenant_count == 0 || metrics->tenant_errors == NULL)
        return;
    metrics_family(writer, "gemmd_tenant_errors", METRICS_COUNTER,
                   "Requests of a tenant that ended with an error, by reason.");
    for (uint32_t i = 0; i < gauges->tenant_count; i++) {
        for (int code = GEMMD_OK + 1; code < GEMMD_ERR_COUNT; code++) {
            const uint64_t errors = errors_of(metrics, &gauges->tenants[i], code);
            char labels[LABELS_MAX];
            if (errors == 0)
                continue;
            snprintf(labels, sizeof labels, "tenant=\"%s\",reason=\"%s\"", gauges->tenants[i].name,
                     error_slug((enum gemmd_error)code));
            metrics_sample(writer, labels, errors);
        }
    }
}

struct work_sum {
    uint64_t requests, device_ns;
};

static struct work_sum work_of(const struct metrics *metrics, const struct metrics_tenant *tenant)
{
    struct work_sum sum = {0};
    for (uint32_t shard = 0; shard < metrics->count; shard++) {
        for (uint32_t i = tenant->first; i < tenant->end && i < metrics->tenant_count; i++) {
            const struct metrics_tenant_work *work = &metrics->shards[shard].tenant_work[i];
            sum.requests += atomic_load_explicit(&work->requests, memory_order_relaxed);
            sum.device_ns += atomic_load_explicit(&work->device_ns, memory_order_relaxed);
        }
    }
    return sum;
}

void metrics_write_tenant_work(struct metrics_writer *writer, const struct metrics *metrics,
                               const struct metrics_gauges *gauges)
{
    struct work_sum sums[METRICS_TENANTS_MAX + 1];
    char labels[METRICS_TENANTS_MAX + 1][LABELS_MAX];
    if (gauges->tenant_count == 0 || metrics->tenant_work == NULL)
        return;
    for (uint32_t i = 0; i < gauges->tenant_count; i++) {
        sums[i] = work_of(metrics, &gauges->tenants[i]);
        snprintf(labels[i], LABELS_MAX, "tenant=\"%s\"", gauges->tenants[i].name);
    }
    metrics_family(writer, "gemmd_tenant_ended_requests", METRICS_COUNTER,
                   "Requests of a tenant that have ended, with any status.");
    for (uint32_t i = 0; i < gauges->tenant_count; i++)
        metrics_sample(writer, labels[i], sums[i].requests);
    metrics_family(writer, "gemmd_tenant_device_seconds", METRICS_COUNTER,
                   "Time that the devices computed for a tenant's requests and jobs, a part of "
                   "gemmd_device_busy_seconds.");
    for (uint32_t i = 0; i < gauges->tenant_count; i++)
        metrics_sample_seconds(writer, labels[i], sums[i].device_ns);
}
