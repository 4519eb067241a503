/* The families of requests: how many have ended, how many were refused, and what was done for each
 * tenant. */
#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/error.h"
#include "server/observe/metrics_families.h"

enum { LABELS_MAX = 160 };

const char *metrics_op_name(enum metrics_op op)
{
    switch (op) {
    case METRICS_OP_INFER:
        return "infer";
    case METRICS_OP_TENSOR:
        return "tensor";
    case METRICS_OP_OTHER:
        return "other";
    default:
        return operation_table[(int)op]->name;
    }
}

static uint64_t requests_of(const struct metrics *metrics, int op, int dtype, int code)
{
    size_t index = ((size_t)op * METRICS_DTYPES + (size_t)dtype) * GEMMD_ERR_COUNT + (size_t)code;
    return metrics_shards_sum(metrics,
                              offsetof(struct metrics_shard, requests) + index * sizeof(uint64_t));
}

/* Whether a code is the first of the errors that share its HTTP status. */
static bool stands_for_status(int code)
{
    for (int earlier = 0; earlier < code; earlier++) {
        if (error_status((enum gemmd_error)earlier) == error_status((enum gemmd_error)code))
            return false;
    }
    return true;
}

static void status_label(int status, char out[16])
{
    if (status == 0)
        snprintf(out, 16, "none");
    else
        snprintf(out, 16, "%d", status);
}

/* Whether a kind of requests has a series of its own. Every kind of good requests has one, however
 * many kinds of wrong ones came before. Of the others, the first METRICS_WRONG_MAX kinds that a
 * scrape finds get a series, and keep it. The lock is held. */
static bool is_shown(struct metrics *metrics, int op, int dtype, int code)
{
    const bool is_good = error_status((enum gemmd_error)code) == 200 &&
                         (metrics->counts_dtype[op][dtype] || op >= METRICS_COMPUTING_OPS);
    if (is_good)
        return true;
    const uint32_t kind =
        ((uint32_t)op * METRICS_DTYPES + (uint32_t)dtype) * GEMMD_ERR_COUNT + (uint32_t)code;
    for (uint32_t i = 0; i < metrics->shown_count; i++)
        if (metrics->shown[i] == kind)
            return true;
    if (metrics->shown_count == METRICS_WRONG_MAX)
        return false;
    metrics->shown[metrics->shown_count++] = kind;
    return true;
}

/* The statuses that alert rules ask for. Requests without a series of their own are still counted
 * by these statuses, and by whether the fault is the client's. */
static const int alert_statuses[] = {429, 500, 503, 504, 507};
enum {
    ALERTS_COUNT = sizeof alert_statuses / sizeof *alert_statuses,
    PLACE_CLIENT_ERRORS = ALERTS_COUNT,
    PLACE_REST,
    OTHERS_COUNT
};

static uint32_t place_among_others(int status)
{
    for (uint32_t i = 0; i < ALERTS_COUNT; i++)
        if (alert_statuses[i] == status)
            return i;
    return status >= 400 && status < 500 ? PLACE_CLIENT_ERRORS : PLACE_REST;
}

/* Writes the requests that have no series of their own. */
static void write_others(struct metrics_writer *writer, const uint64_t counts[OTHERS_COUNT])
{
    char labels[LABELS_MAX], text[16];
    for (uint32_t i = 0; i < OTHERS_COUNT; i++) {
        if (counts[i] == 0)
            continue;
        if (i < ALERTS_COUNT)
            status_label(alert_statuses[i], text);
        else
            snprintf(text, sizeof text, "%s", i == PLACE_CLIENT_ERRORS ? "4xx" : "other");
        snprintf(labels, sizeof labels, "op=\"\",dtype=\"\",code=\"%s\"", text);
        metrics_sample(writer, labels, counts[i]);
    }
}

void metrics_write_requests(struct metrics_writer *writer, struct metrics *metrics)
{
    metrics_family(
        writer, "gemmd_requests", METRICS_COUNTER,
        "Requests that have ended, by operation, operand type and HTTP status; 200 stands "
        "for every success, none for a client that disconnected before the answer. Every success "
        "is "
        "told apart. Of requests that failed, of further kinds than the first 11, only the "
        "statuses 429, 500, 503, 504, 507 and 4xx are told apart.");
    uint64_t others[OTHERS_COUNT] = {0};
    pthread_mutex_lock(&metrics->shown_lock);
    for (int op = 0; op < METRICS_OP_COUNT; op++) {
        for (int dtype = 0; dtype < METRICS_DTYPES; dtype++) {
            bool known = dtype < GEMMD_DTYPE_COUNT;
            if (known && !metrics->counts_dtype[op][dtype])
                continue;
            for (int code = 0; code < GEMMD_ERR_COUNT; code++) {
                if (!stands_for_status(code))
                    continue;
                int status = error_status((enum gemmd_error)code);
                uint64_t sum = 0;
                if (known && !metrics->counts_dtype_of_code[code])
                    continue;
                for (int other = code; other < GEMMD_ERR_COUNT; other++) {
                    if (error_status((enum gemmd_error)other) == status)
                        sum += requests_of(metrics, op, dtype, other);
                }
                if (sum == 0)
                    continue;
                if (!is_shown(metrics, op, dtype, code)) {
                    others[place_among_others(status)] += sum;
                    continue;
                }
                char labels[LABELS_MAX], text[16];
                status_label(status, text);
                snprintf(labels, sizeof(labels), "op=\"%s\",dtype=\"%s\",code=\"%s\"",
                         metrics_op_name((enum metrics_op)op),
                         known ? dtype_name((enum gemmd_dtype)dtype) : "", text);
                metrics_sample(writer, labels, sum);
            }
        }
    }
    pthread_mutex_unlock(&metrics->shown_lock);
    write_others(writer, others);
}

void metrics_write_rejected(struct metrics_writer *writer, const struct metrics *metrics)
{
    metrics_family(writer, "gemmd_rejected", METRICS_COUNTER,
                   "Requests answered with an error, by reason, and connections refused because "
                   "too many were open.");
    for (int code = GEMMD_OK + 1; code < GEMMD_ERR_COUNT; code++) {
        if (error_status((enum gemmd_error)code) == 0)
            continue;
        uint64_t sum = 0;
        for (int op = 0; op < METRICS_OP_COUNT; op++) {
            for (int dtype = 0; dtype < METRICS_DTYPES; dtype++)
                sum += requests_of(metrics, op, dtype, code);
        }
        /* gemmd_verifications counts wrong products too. */
        if (code == GEMMD_ERR_VERIFICATION && sum == 0)
            continue;
        char labels[LABELS_MAX];
        snprintf(labels, sizeof(labels), "reason=\"%s\"", error_slug((enum gemmd_error)code));
        metrics_sample(writer, labels, sum);
    }
    metrics_sample(writer, "reason=\"connection-limit\"",
                   METRICS_SHARDS_SUM(metrics, connections_refused));
}

/* ---- tenants ---- */

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
