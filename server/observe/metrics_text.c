/* Writes every metric family of /metrics, in a fixed order, from the sums over the shards. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/error.h"
#include "server/observe/metrics_families.h"
#include "server/observe/metrics_process.h"
#include "server/observe/metrics_shard.h"
#include "server/observe/metrics_writer.h"

enum { LABELS_MAX = 160, LABEL_MAX = 80 };

static const char *const stage_names[METRICS_STAGE_COUNT] = {"receive", "queue", "h2d",
                                                             "kernel",  "d2h",   "send"};

static const char *const job_names[METRICS_JOB_COUNT] = {"receiving", "queued", "running",
                                                         "done",      "failed", "cancelled"};

const char *metrics_op_name(enum metrics_op op)
{
    switch (op) {
    case METRICS_OP_GEMM:
        return "gemm";
    case METRICS_OP_INFER:
        return "infer";
    case METRICS_OP_TENSOR:
        return "tensor";
    case METRICS_OP_OTHER:
        return "other";
    default:
        return operation_table[op - METRICS_OP_TASKS]->name;
    }
}

const char *metrics_stage_name(enum metrics_stage stage)
{
    return stage_names[stage];
}

/* Returns the sum over all shards of the counter at `offset` bytes in a shard. */
static uint64_t total(const struct metrics *metrics, size_t offset)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const char *shard = (const char *)&metrics->shards[i];
        sum += atomic_load_explicit((const _Atomic uint64_t *)(const void *)(shard + offset),
                                    memory_order_relaxed);
    }
    return sum;
}

#define TOTAL(metrics, field) total(metrics, offsetof(struct metrics_shard, field))

static uint64_t requests_of(const struct metrics *metrics, int op, int dtype, int code)
{
    size_t index = ((size_t)op * METRICS_DTYPES + (size_t)dtype) * GEMMD_ERR_COUNT + (size_t)code;
    return total(metrics, offsetof(struct metrics_shard, requests) + index * sizeof(uint64_t));
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

/* Whether a kind of requests has a series of its own: the first kinds that a scrape finds do, and
 * keep it. The lock is held. */
static bool is_shown(struct metrics *metrics, int op, int dtype, int code)
{
    const uint32_t kind =
        ((uint32_t)op * METRICS_DTYPES + (uint32_t)dtype) * GEMMD_ERR_COUNT + (uint32_t)code;
    for (uint32_t i = 0; i < metrics->shown_count; i++)
        if (metrics->shown[i] == kind)
            return true;
    if (metrics->shown_count == METRICS_REQUESTS_MAX)
        return false;
    metrics->shown[metrics->shown_count++] = kind;
    return true;
}

/* The statuses that alerts ask for, which are told apart for all requests. */
static const int alert_statuses[] = {429, 500, 503, 504, 507};
enum { OTHERS_COUNT = sizeof alert_statuses / sizeof *alert_statuses };

static uint32_t place_among_others(int status)
{
    uint32_t i = 0;
    while (i < OTHERS_COUNT && alert_statuses[i] != status)
        i++;
    return i;
}

/* Writes the requests that have no series of their own. */
static void write_others(struct metrics_writer *writer, const uint64_t counts[OTHERS_COUNT + 1])
{
    char labels[LABELS_MAX], text[16];
    for (uint32_t i = 0; i <= OTHERS_COUNT; i++) {
        if (counts[i] == 0)
            continue;
        if (i < OTHERS_COUNT)
            status_label(alert_statuses[i], text);
        else
            snprintf(text, sizeof text, "other");
        snprintf(labels, sizeof labels, "op=\"\",dtype=\"\",code=\"%s\"", text);
        metrics_sample(writer, labels, counts[i]);
    }
}

static void write_requests(struct metrics_writer *writer, struct metrics *metrics)
{
    metrics_family(
        writer, "gemmd_requests", METRICS_COUNTER,
        "Requests that have ended, by operation, operand type and HTTP status; 200 stands "
        "for every success, none for a client that disconnected before the answer. Of requests of "
        "further kinds than the first 23, only the statuses 429, 500, 503, 504 and 507 are told "
        "apart.");
    uint64_t others[OTHERS_COUNT + 1] = {0};
    pthread_mutex_lock(&metrics->shown_lock);
    for (int op = 0; op < METRICS_OP_COUNT; op++) {
        for (int dtype = 0; dtype < METRICS_DTYPES; dtype++) {
            bool known = dtype < GEMMD_DTYPE_COUNT;
            if (known && !metrics_counts_dtype((enum metrics_op)op, (enum gemmd_dtype)dtype))
                continue;
            for (int code = 0; code < GEMMD_ERR_COUNT; code++) {
                if (!stands_for_status(code))
                    continue;
                int status = error_status((enum gemmd_error)code);
                uint64_t sum = 0;
                if (known && !metrics_counts_dtype_of_status(status))
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

static void write_rejected(struct metrics_writer *writer, const struct metrics *metrics)
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
    metrics_sample(writer, "reason=\"connection-limit\"", TOTAL(metrics, connections_refused));
}

/* Writes the TLS handshakes, unless there were none. */
static void write_handshakes(struct metrics_writer *writer, const struct metrics *metrics)
{
    const uint64_t good = TOTAL(metrics, handshakes), failed = TOTAL(metrics, failed_handshakes);
    if (good + failed == 0)
        return;
    metrics_family(writer, "gemmd_tls_handshakes", METRICS_COUNTER,
                   "TLS handshakes of connections that have ended, by whether the handshake "
                   "succeeded.");
    metrics_sample(writer, "result=\"ok\"", good);
    metrics_sample(writer, "result=\"failed\"", failed);
}

/* Writes a histogram. One that nothing was counted in is left out, unless `always`. */
static void write_histogram(struct metrics_writer *writer, const struct metrics *metrics,
                            const char *labels, size_t offset, const uint64_t *bounds,
                            uint32_t count, bool always, const struct metrics_exemplar *exemplars)
{
    uint64_t buckets[METRICS_BUCKETS_MAX + 1], observed = 0;
    for (uint32_t i = 0; i <= count; i++) {
        buckets[i] = total(metrics, offset + offsetof(struct metrics_histogram, buckets) +
                                        i * sizeof(uint64_t));
        observed += buckets[i];
    }
    const uint64_t sum = total(metrics, offset + offsetof(struct metrics_histogram, sum));
    if (observed == 0 && !always)
        return;
    if (bounds != metrics_launch_bounds)
        metrics_sample_times(writer, labels, buckets, bounds, count, sum, exemplars);
    else
        metrics_sample_histogram(writer, labels, buckets, bounds, count, sum, 1);
}

/* Whether a histogram of a family has buckets of its own: the first `most` that a scrape finds used
 * do, and keep them. */
static bool has_buckets(struct metrics *metrics, struct metrics_shown *shown, uint32_t most,
                        uint32_t number)
{
    bool has = false;
    pthread_mutex_lock(&metrics->shown_lock);
    for (uint32_t i = 0; i < shown->count; i++)
        has |= shown->list[i] == number;
    if (!has && shown->count < most) {
        shown->list[shown->count++] = number;
        has = true;
    }
    pthread_mutex_unlock(&metrics->shown_lock);
    return has;
}

/* What was counted in a histogram: its sum, and the number of observations. */
struct observed {
    uint64_t count, sum;
};

static struct observed observed_in(const struct metrics *metrics, size_t offset)
{
    struct observed observed = {
        .sum = total(metrics, offset + offsetof(struct metrics_histogram, sum))};
    for (uint32_t i = 0; i <= METRICS_BUCKETS_MAX; i++)
        observed.count += total(metrics, offset + offsetof(struct metrics_histogram, buckets) +
                                             i * sizeof(uint64_t));
    return observed;
}

/* Writes the histograms without buckets of their own as one, which has none but +Inf. */
static void write_other_times(struct metrics_writer *writer, struct observed observed)
{
    if (observed.count > 0)
        metrics_sample_times(writer, "op=\"\"", &observed.count, NULL, 0, observed.sum, NULL);
}

static void copy_exemplars(struct metrics *metrics, const struct metrics_exemplar *from,
                           struct metrics_exemplar *to, uint32_t count)
{
    pthread_mutex_lock(&metrics->exemplars_lock);
    memcpy(to, from, count * sizeof *to);
    pthread_mutex_unlock(&metrics->exemplars_lock);
}

/* Writes the durations of requests by operation, with the exemplars if the viewer may see them. */
static void write_durations(struct metrics_writer *writer, struct metrics *metrics,
                            bool shows_exemplars)
{
    char labels[LABELS_MAX];
    struct metrics_exemplar exemplars[METRICS_TIME_BUCKETS + 1];
    metrics_family(
        writer, "gemmd_request_duration_seconds", METRICS_HISTOGRAM,
        "Time from the first byte of a request to the last byte of its answer. Operations "
        "after the first 4 that were used are counted together, without buckets.");
    /* Probes and scrapes, METRICS_OP_OTHER, are counted only. */
    struct observed others = {0, 0};
    for (size_t op = 0; op < METRICS_OP_OTHER; op++) {
        const struct observed here =
            observed_in(metrics, offsetof(struct metrics_shard, duration) +
                                     op * sizeof(struct metrics_histogram));
        if (here.count > 0 &&
            !has_buckets(metrics, &metrics->shown_durations, METRICS_DURATIONS_MAX, (uint32_t)op)) {
            others.count += here.count;
            others.sum += here.sum;
            continue;
        }
        snprintf(labels, sizeof(labels), "op=\"%s\"", metrics_op_name((enum metrics_op)op));
        copy_exemplars(metrics, metrics->exemplars[op], exemplars, METRICS_TIME_BUCKETS + 1);
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, duration) +
                            op * sizeof(struct metrics_histogram),
                        metrics_time_bounds_ns, METRICS_TIME_BUCKETS, false,
                        shows_exemplars ? exemplars : NULL);
    }
    write_other_times(writer, others);
}

static void write_histograms(struct metrics_writer *writer, struct metrics *metrics,
                             bool shows_exemplars)
{
    char labels[LABELS_MAX];
    struct metrics_exemplar exemplars[METRICS_STAGE_BUCKETS + 1];
    metrics_family(
        writer, "gemmd_stage_duration_seconds", METRICS_HISTOGRAM,
        "Time that a request to compute spends in each stage. Requests without copies are "
        "not counted in h2d and d2h.");
    for (size_t stage = 0; stage < METRICS_STAGE_COUNT; stage++) {
        snprintf(labels, sizeof(labels), "stage=\"%s\"", stage_names[stage]);
        copy_exemplars(metrics, metrics->stage_exemplars[stage], exemplars,
                       METRICS_STAGE_BUCKETS + 1);
        const bool copies = stage == METRICS_STAGE_H2D || stage == METRICS_STAGE_D2H;
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, stages) +
                            stage * sizeof(struct metrics_histogram),
                        metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS, !copies,
                        shows_exemplars ? exemplars : NULL);
    }
    metrics_family(writer, "gemmd_queue_wait_seconds", METRICS_HISTOGRAM,
                   "Time that works waited in the queue, by what the device then did: an operation "
                   "such as gemm (for requests to infer too), or copy (of a resident tensor).");
    struct observed others = {0, 0};
    for (size_t task = 0; task < METRICS_TASK_COUNT; task++) {
        const struct observed here =
            observed_in(metrics, offsetof(struct metrics_shard, queue_wait) +
                                     task * sizeof(struct metrics_histogram));
        if (here.count > 0 &&
            !has_buckets(metrics, &metrics->shown_waits, METRICS_WAITS_MAX, (uint32_t)task)) {
            others.count += here.count;
            others.sum += here.sum;
            continue;
        }
        snprintf(labels, sizeof(labels), "op=\"%s\"", metrics_task_name((enum metrics_task)task));
        write_histogram(writer, metrics, labels,
                        offsetof(struct metrics_shard, queue_wait) +
                            task * sizeof(struct metrics_histogram),
                        metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS, false, NULL);
    }
    write_other_times(writer, others);
    metrics_family(writer, "gemmd_batch_size", METRICS_HISTOGRAM,
                   "Requests computed by one launch on the device.");
    write_histogram(writer, metrics, "", offsetof(struct metrics_shard, launch_requests),
                    metrics_launch_bounds, METRICS_LAUNCH_BUCKETS, true, NULL);
}

/* Writes the checks of a sample from the start if there is one, other checks once one was made. */
static void write_verifications(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    const struct {
        const char *by;
        struct metrics_verifications results;
        bool always;
    } all[] = {{"request", gauges->verified_asked, false},
               {"sample", gauges->verified_sampled, gauges->verifies_sample}};
    char labels[LABELS_MAX];
    metrics_family(writer, "gemmd_verifications", METRICS_COUNTER,
                   "Products verified because of the parameter verify (request) or of "
                   "--verify-share (sample). fail: the product was wrong and was not sent. error: "
                   "the check could not be made.");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct {
            const char *name;
            uint64_t value;
        } results[] = {{"pass", all[i].results.pass},
                       {"fail", all[i].results.fail},
                       {"error", all[i].results.error}};
        if (!all[i].always && results[0].value + results[1].value + results[2].value == 0)
            continue;
        for (size_t j = 0; j < sizeof results / sizeof *results; j++) {
            snprintf(labels, sizeof labels, "by=\"%s\",result=\"%s\"", all[i].by, results[j].name);
            metrics_sample(writer, labels, results[j].value);
        }
    }
}

static void write_counters(struct metrics_writer *writer, const struct metrics *metrics,
                           const struct metrics_gauges *gauges)
{
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"gemmd_request_bytes", "Bytes of request bodies received, before decompression.",
         TOTAL(metrics, request_bytes)},
        {"gemmd_response_bytes", "Bytes of the bodies of answers.", TOTAL(metrics, response_bytes)},
        {"gemmd_inflated_bodies", "Request bodies received compressed.",
         TOTAL(metrics, inflated_bodies)},
        {"gemmd_inflated_bytes", "Bytes of compressed request bodies after decompression.",
         TOTAL(metrics, inflated_bytes)},
        {"gemmd_early_copy_bytes",
         "Bytes of operands whose copy to the device began before their request was received "
         "completely.",
         TOTAL(metrics, early_copy_bytes)},
        {"gemmd_client_gone", "Requests whose client disconnected before the end of the answer.",
         TOTAL(metrics, client_gone)},
        {"gemmd_device_errors", "Launches that failed with an error of the device.",
         TOTAL(metrics, device_errors)},
        {"gemmd_tensor_hits", "Operands named by requests that were found as resident tensors.",
         gauges->tensor_hits},
        {"gemmd_tensor_misses",
         "Operands named by requests for which there was no resident tensor.",
         gauges->tensor_misses},
        {"gemmd_tensor_evictions", "Evictable tensors removed to make room for other tensors.",
         gauges->tensor_evictions},
        {"gemmd_jobs_created", "Jobs accepted (requests with Prefer: respond-async).",
         gauges->jobs_created},
        {"gemmd_jobs_cancelled", "Jobs deleted before they had finished.", gauges->jobs_cancelled},
        {"gemmd_jobs_expired", "Jobs whose result expired before it was deleted (--job-ttl).",
         gauges->jobs_expired},
        {"gemmd_log_dropped_lines", "Log lines dropped because standard output did not take them.",
         gauges->log_dropped_lines},
    };
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        metrics_family(writer, counters[i].name, METRICS_COUNTER, counters[i].help);
        metrics_sample(writer, "", counters[i].value);
    }
    write_verifications(writer, gauges);
    if (gauges->device_restarts > 0) {
        metrics_family(writer, "gemmd_device_restarts", METRICS_COUNTER,
                       "How often the daemon has replaced itself because its device was lost.");
        metrics_sample(writer, "", gauges->device_restarts);
    }
    metrics_family(writer, "gemmd_device_busy_seconds", METRICS_COUNTER,
                   "Time that the device has spent on launches.");
    metrics_sample_seconds(writer, "", TOTAL(metrics, busy_ns));

    double flops = 0;
    for (uint32_t i = 0; i < metrics->count; i++)
        flops += atomic_load_explicit(&metrics->shards[i].flops, memory_order_relaxed);
    metrics_family(writer, "gemmd_flops", METRICS_COUNTER,
                   "Floating-point operations of computed results (2mnk for a product).");
    metrics_sample_real(writer, "", flops);
}

static void write_gauges(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    const struct {
        const char *name, *help;
        uint64_t value;
    } values[] = {
        {"gemmd_requests_running", "Requests that the device is computing.",
         gauges->requests_running},
        {"gemmd_requests_waiting", "Requests waiting in the queue for the device.",
         gauges->requests_waiting},
        {"gemmd_queue_requests", "Requests that are accepted and not computed yet.",
         gauges->queue_requests},
        {"gemmd_queue_bytes",
         "Bytes of bodies and results of requests that are accepted and not computed yet.",
         gauges->queue_bytes},
        {"gemmd_queue_capacity_bytes", "Limit of gemmd_queue_bytes (--queue-bytes).",
         gauges->queue_capacity_bytes},
        {"gemmd_queue_capacity_requests", "Limit of gemmd_queue_requests (--queue-requests).",
         gauges->queue_capacity_requests},
        {"gemmd_tenant_capacity_requests",
         "Limit of one tenant's accepted requests (--tenant-requests); 0: only the limit of all.",
         gauges->tenant_capacity_requests},
        {"gemmd_tenant_capacity_bytes",
         "Limit of the bytes of one tenant's accepted requests (--tenant-bytes); 0: only the limit "
         "of all.",
         gauges->tenant_capacity_bytes},
        {"gemmd_tenant_tensor_capacity_bytes",
         "Limit of the device memory of one tenant's tensors (--tenant-tensor-bytes); 0: only the "
         "limit of all.",
         gauges->tenant_capacity_tensor_bytes},
        {"gemmd_pinned_memory_used_bytes",
         "Bytes in use of the host memory for bodies and results.", gauges->pinned_used_bytes},
        {"gemmd_pinned_memory_capacity_bytes",
         "Bytes of host memory for bodies and results (--pinned-bytes).",
         gauges->pinned_capacity_bytes},
        {"gemmd_device_memory_used_bytes",
         "Bytes in use of the device memory for accepted requests.", gauges->device_used_bytes},
        {"gemmd_device_memory_capacity_bytes",
         "Bytes of --device-bytes that accepted requests can use, without what is set aside for "
         "stacks.",
         gauges->device_capacity_bytes},
        {"gemmd_kernels_left_out",
         "Kernels that are not used because they failed the self-test or --without-kernels names "
         "them.",
         gauges->kernels_left_out},
        {"gemmd_shared_memory_used_bytes", "Bytes of clients' shared memory that are mapped.",
         gauges->shared_bytes},
        {"gemmd_shared_memory_capacity_bytes",
         "Bytes of clients' shared memory that may be mapped (--shm-bytes).",
         gauges->shared_capacity_bytes},
        {"gemmd_shared_memories", "Mappings of clients' shared memory.", gauges->shared_memories},
        {"gemmd_shared_memories_capacity",
         "Mappings of clients' shared memory that there may be (--shm-regions).",
         gauges->shared_capacity_memories},
        {"gemmd_shared_memory_regions", "Names that clients have registered for shared memory.",
         gauges->shared_regions},
        {"gemmd_tensor_memory_used_bytes", "Bytes of device memory that resident tensors take.",
         gauges->tensor_used_bytes},
        {"gemmd_tensor_memory_capacity_bytes",
         "Bytes of device memory for resident tensors (--tensor-bytes).",
         gauges->tensor_capacity_bytes},
        {"gemmd_tensor_names", "Resident tensors that have a name.", gauges->tensor_count},
        {"gemmd_jobs_capacity", "Limit of unfinished and kept jobs (--max-jobs).",
         gauges->jobs_capacity},
        {"gemmd_job_bytes", "Bytes reserved or kept for the results of jobs.", gauges->job_bytes},
        {"gemmd_job_capacity_bytes", "Limit of gemmd_job_bytes (--job-bytes).",
         gauges->job_capacity_bytes},
        {"gemmd_connections", "Open connections.", gauges->connections},
        {"gemmd_connections_capacity", "Limit of open connections (--max-connections).",
         gauges->connections_capacity},
        {"gemmd_ready",
         "1 while the daemon is not shutting down and its device is neither lost nor stalled, else "
         "0.",
         gauges->ready},
        {"gemmd_device_stalled",
         "1 while the device has work and has finished no part of it for --stall-time, else 0.",
         gauges->device_stalled},
        {"gemmd_draining", "1 while the daemon is shutting down, else 0.", gauges->draining},
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        metrics_family(writer, values[i].name, METRICS_GAUGE, values[i].help);
        metrics_sample(writer, "", values[i].value);
    }
    metrics_family(writer, "gemmd_jobs", METRICS_GAUGE,
                   "Jobs that count against --max-jobs, by state; a cancelled job counts until the "
                   "device has finished it.");
    for (int state = 0; state < METRICS_JOB_COUNT; state++) {
        char labels[LABELS_MAX];
        snprintf(labels, sizeof(labels), "state=\"%s\"", job_names[state]);
        metrics_sample(writer, labels, gauges->jobs[state]);
    }
}

static void write_tenants(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    char labels[LABELS_MAX];
    metrics_family(writer, "gemmd_queue_refused", METRICS_COUNTER,
                   "Requests refused with 429, by the limit that they would have exceeded.");
    for (uint32_t i = 0; i < gauges->limit_count; i++) {
        snprintf(labels, sizeof(labels), "limit=\"%s\"", gauges->limits[i].name);
        metrics_sample(writer, labels, gauges->limits[i].refused);
    }
    const struct {
        const char *name, *help;
        size_t offset;
    } gauged[] = {
        {"gemmd_tenant_requests", "Requests of a tenant that are accepted and not computed yet.",
         offsetof(struct metrics_tenant, requests)},
        {"gemmd_tenant_bytes",
         "Bytes of bodies and results of a tenant's requests that are accepted and not computed "
         "yet.",
         offsetof(struct metrics_tenant, bytes)},
        {"gemmd_tenant_tensor_bytes",
         "Bytes of device memory that a tenant's resident tensors take.",
         offsetof(struct metrics_tenant, tensor_bytes)},
        {"gemmd_tenant_jobs", "Jobs of a tenant that count against --max-jobs.",
         offsetof(struct metrics_tenant, jobs)},
        {"gemmd_tenant_job_bytes", "Bytes reserved or kept for the results of a tenant's jobs.",
         offsetof(struct metrics_tenant, job_bytes)},
    };
    for (size_t family = 0; family < sizeof(gauged) / sizeof(gauged[0]) && gauges->tenant_count > 0;
         family++) {
        metrics_family(writer, gauged[family].name, METRICS_GAUGE, gauged[family].help);
        for (uint32_t i = 0; i < gauges->tenant_count; i++) {
            const char *tenant = (const char *)&gauges->tenants[i];
            uint64_t value;
            memcpy(&value, tenant + gauged[family].offset, sizeof value);
            snprintf(labels, sizeof(labels), "tenant=\"%s\"", gauges->tenants[i].name);
            metrics_sample(writer, labels, value);
        }
    }
}

static void write_reloads(struct metrics_writer *writer, const struct metrics_gauges *gauges)
{
    metrics_family(writer, "gemmd_config_reloads", METRICS_COUNTER,
                   "Reloads of the options by SIGHUP.");
    metrics_sample(writer, "result=\"success\"", gauges->reloads_succeeded);
    metrics_sample(writer, "result=\"failure\"", gauges->reloads_failed);
    metrics_family(writer, "gemmd_config_last_reload_successful", METRICS_GAUGE,
                   "1 if the last reload, or the start, succeeded, else 0.");
    metrics_sample(writer, "", gauges->reload_last_succeeded);
    metrics_family(writer, "gemmd_config_last_reload_success_timestamp_seconds", METRICS_GAUGE,
                   "Unix time of the last successful reload, or of the start.");
    metrics_sample(writer, "", gauges->reload_last_success_seconds);
}

static void write_build(struct metrics_writer *writer, const struct metrics_identity *identity)
{
    const struct {
        const char *name, *value;
    } members[] = {
        {"version", identity->version}, {"revision", identity->revision},
        {"backend", identity->backend}, {"library", identity->library},
        {"mhd", identity->mhd},         {"arch", identity->arch},
    };
    enum { COUNT = sizeof(members) / sizeof(members[0]) };
    char labels[COUNT * (LABEL_MAX + 16)];
    size_t length = 0;
    for (size_t i = 0; i < COUNT; i++) {
        char value[LABEL_MAX];
        metrics_label(value, sizeof(value), members[i].value ? members[i].value : "");
        length += (size_t)snprintf(labels + length, sizeof(labels) - length, "%s%s=\"%s\"",
                                   i ? "," : "", members[i].name, value);
    }
    metrics_family(writer, "gemmd_build", METRICS_INFO, "Version and build of this daemon.");
    metrics_sample(writer, labels, 1);
}

static void write_process(struct metrics_writer *writer, const struct metrics *metrics)
{
    struct metrics_process process;
    metrics_process_read(&process);
    const struct {
        const char *name, *help;
        uint64_t value;
    } values[] = {
        {"process_open_fds", "Number of open file descriptors.", process.open_fds},
        {"process_max_fds", "Maximum number of open file descriptors.", process.max_fds},
        {"process_virtual_memory_bytes", "Virtual memory size in bytes.", process.virtual_bytes},
        {"process_resident_memory_bytes", "Resident memory size in bytes.", process.resident_bytes},
        {"process_threads", "Number of operating system threads in the process.", process.threads},
    };
    metrics_family(writer, "process_cpu_seconds", METRICS_COUNTER,
                   "User and system CPU time of all threads.");
    metrics_sample_seconds(writer, "", process.cpu_ns);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        metrics_family(writer, values[i].name, METRICS_GAUGE, values[i].help);
        metrics_sample(writer, "", values[i].value);
    }
    metrics_family(writer, "process_start_time_seconds", METRICS_GAUGE,
                   "Start time of the process since the Unix epoch in seconds.");
    metrics_sample_real(writer, "", metrics->start_seconds);
}

bool metrics_expose(struct metrics *metrics, const struct metrics_gauges *gauges,
                    enum metrics_format format, char **text, uint64_t *length)
{
    char *buffer = NULL;
    size_t size = 0;
    struct metrics_writer writer = {.out = open_memstream(&buffer, &size), .format = format};
    if (!writer.out)
        return false;
    write_requests(&writer, metrics);
    write_rejected(&writer, metrics);
    write_durations(&writer, metrics, gauges->shows_exemplars);
    write_handshakes(&writer, metrics);
    write_histograms(&writer, metrics, gauges->shows_exemplars);
    write_counters(&writer, metrics, gauges);
    write_gauges(&writer, gauges);
    write_tenants(&writer, gauges);
    write_reloads(&writer, gauges);
    metrics_write_tenant_errors(&writer, metrics, gauges);
    metrics_write_kernels(&writer, metrics);
    metrics_write_device(&writer, gauges);
    metrics_write_devices(&writer, gauges);
    write_build(&writer, &metrics->identity);
    write_process(&writer, metrics);
    if (format == METRICS_OPENMETRICS)
        fputs("# EOF\n", writer.out);
    bool failed = ferror(writer.out) != 0;
    if (fclose(writer.out) != 0 || failed) {
        free(buffer);
        return false;
    }
    *text = buffer;
    *length = size;
    return true;
}
