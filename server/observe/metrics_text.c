/* Writes every metric family of /metrics, in a fixed order. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/observe/metrics_families.h"
#include "server/observe/metrics_shard.h"

enum { LABELS_MAX = 160, LABEL_MAX = 80 };

static const char *const job_names[METRICS_JOB_COUNT] = {"receiving", "queued", "running",
                                                         "done",      "failed", "cancelled"};

/* Writes the TLS handshakes, unless there were none. */
static void write_handshakes(struct metrics_writer *writer, const struct metrics *metrics)
{
    const uint64_t good = METRICS_SHARDS_SUM(metrics, handshakes),
                   failed = METRICS_SHARDS_SUM(metrics, failed_handshakes);
    if (good + failed == 0)
        return;
    metrics_family(writer, "gemmd_tls_handshakes", METRICS_COUNTER,
                   "TLS handshakes of connections that have ended, by whether the handshake "
                   "succeeded.");
    metrics_sample(writer, "result=\"ok\"", good);
    metrics_sample(writer, "result=\"failed\"", failed);
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
                   "the product or its check failed on the device.");
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
         METRICS_SHARDS_SUM(metrics, request_bytes)},
        {"gemmd_response_bytes", "Bytes of the bodies of answers.",
         METRICS_SHARDS_SUM(metrics, response_bytes)},
        {"gemmd_inflated_bodies", "Request bodies received compressed.",
         METRICS_SHARDS_SUM(metrics, inflated_bodies)},
        {"gemmd_inflated_bytes", "Bytes of compressed request bodies after decompression.",
         METRICS_SHARDS_SUM(metrics, inflated_bytes)},
        {"gemmd_early_copy_bytes",
         "Bytes of operands whose copy to the device began before their request was received "
         "completely.",
         METRICS_SHARDS_SUM(metrics, early_copy_bytes)},
        {"gemmd_client_gone", "Requests whose client disconnected before the end of the answer.",
         METRICS_SHARDS_SUM(metrics, client_gone)},
        {"gemmd_device_errors", "Launches that failed with an error of the device.",
         METRICS_SHARDS_SUM(metrics, device_errors)},
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
    metrics_sample_seconds(writer, "", METRICS_SHARDS_SUM(metrics, busy_ns));

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
        {"gemmd_queue_requests",
         "Requests that are accepted and not computed yet, or whose answer of more than 64 KiB has "
         "not "
         "left yet.",
         gauges->queue_requests},
        {"gemmd_queue_bytes",
         "Bytes of bodies and results of the requests that gemmd_queue_requests counts.",
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
         "Limit of gemmd_shared_memories, and of gemmd_shared_memory_regions (--shm-regions).",
         gauges->shared_capacity_memories},
        {"gemmd_shared_memory_regions", "Names that clients have registered for shared memory.",
         gauges->shared_regions},
        {"gemmd_tensor_memory_used_bytes", "Bytes of device memory that resident tensors take.",
         gauges->tensor_used_bytes},
        {"gemmd_tensor_memory_capacity_bytes",
         "Bytes of device memory for resident tensors (--tensor-bytes).",
         gauges->tensor_capacity_bytes},
        {"gemmd_tensor_names", "Resident tensors and sequences that have a name.",
         gauges->tensor_count},
        {"gemmd_jobs_capacity", "Limit of unfinished and kept jobs (--max-jobs).",
         gauges->jobs_capacity},
        {"gemmd_job_bytes", "Bytes reserved or kept for the results of jobs.", gauges->job_bytes},
        {"gemmd_job_capacity_bytes", "Limit of gemmd_job_bytes (--job-bytes).",
         gauges->job_capacity_bytes},
        {"gemmd_connections", "Open connections.", gauges->connections},
        {"gemmd_connections_capacity", "Limit of open connections (--max-connections).",
         gauges->connections_capacity},
        {"gemmd_ready",
         "1 while the daemon is not shutting down and a device is neither lost nor stalled, else "
         "0.",
         gauges->ready},
        {"gemmd_device_stalled",
         "1 while a device has work and has finished no part of it for --stall-time, else 0.",
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
        {"gemmd_tenant_requests", "Requests of a tenant that gemmd_queue_requests counts.",
         offsetof(struct metrics_tenant, requests)},
        {"gemmd_tenant_bytes",
         "Bytes of bodies and results of a tenant's requests that gemmd_queue_requests counts.",
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
    if (gauges->handovers_failed > 0) {
        metrics_family(writer, "gemmd_handover_failures", METRICS_COUNTER,
                       "How often a new process that SIGUSR2 started did not take over, so that "
                       "this process went on serving.");
        metrics_sample(writer, "", gauges->handovers_failed);
    }
    if (gauges->certificate_expiry_seconds == 0)
        return;
    metrics_family(writer, "gemmd_tls_certificate_expiry_timestamp_seconds", METRICS_GAUGE,
                   "Unix time at which the first of the certificates in --tls-cert expires.");
    metrics_sample(writer, "", gauges->certificate_expiry_seconds);
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
    metrics_write_requests(&writer, metrics);
    metrics_write_rejected(&writer, metrics);
    metrics_write_durations(&writer, metrics, gauges->shows_exemplars);
    write_handshakes(&writer, metrics);
    metrics_write_histograms(&writer, metrics, gauges->shows_exemplars);
    write_counters(&writer, metrics, gauges);
    write_gauges(&writer, gauges);
    write_tenants(&writer, gauges);
    write_reloads(&writer, gauges);
    metrics_write_tenant_errors(&writer, metrics, gauges);
    metrics_write_tenant_work(&writer, metrics, gauges);
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
