/* The family of the tenants' errors. */
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
