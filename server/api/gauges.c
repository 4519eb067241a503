#include "server/api/gauges.h"

#include <string.h>

#include "server/api/services.h"
#include "server/http/tokens.h"
#include "server/jobs/jobs.h"
#include "server/observe/otlp.h"
#include "server/shm/shm_store.h"

/* Adds the tenants that the tenant with the number `viewer` may see: itself, or all. */
static void add_tenants(struct services *services, uint32_t viewer, struct metrics_gauges *gauges)
{
    const struct tokens *tokens = services->http->tokens;
    uint32_t tenants = tokens == NULL ? 0 : tokens_tenants(tokens);
    const bool sees_all = tenants > 0 && tokens_sees_all(tokens, viewer);
    for (uint32_t i = 0; i < tenants; i++) {
        if (!sees_all && i != viewer)
            continue;
        struct admission_held held = admission_held_by(services->admission, i);
        const uint32_t next = sees_all ? i : 0;
        bool named = next < METRICS_TENANTS_MAX;
        uint32_t at = named ? next : METRICS_TENANTS_MAX;
        gauges->tenants[at].number = named ? i : METRICS_TENANTS_MAX;
        gauges->tenants[at].name = named ? tokens_tenant_name(tokens, i) : "(others)";
        gauges->tenants[at].requests += held.requests;
        gauges->tenants[at].bytes += held.bytes;
        gauges->tenants[at].tensor_bytes +=
            tensor_store_used_by(services->tensors, tokens_tenant_name(tokens, i));
        const struct jobs_held jobs = jobs_held_by(services->jobs, i);
        gauges->tenants[at].jobs += jobs.jobs;
        gauges->tenants[at].job_bytes += jobs.bytes;
        gauges->tenant_count = at + 1;
    }
}

static struct metrics_verifications verifications_of(const struct verify_counts *counts,
                                                     enum work_verify by)
{
    return (struct metrics_verifications){
        .pass = atomic_load(&counts->count[by][VERIFY_PASS]),
        .fail = atomic_load(&counts->count[by][VERIFY_FAIL]),
        .error = atomic_load(&counts->count[by][VERIFY_ERROR]),
    };
}

struct metrics_gauges gauges_read(struct services *services, uint32_t viewer)
{
    struct queue_state queue = queue_state(services->queue);
    struct admission *admission = services->admission;
    struct arena *arena = device_arena(services->device);
    const struct device_left_out *left_out;
    enum http_stage stage = atomic_load(&services->http->stage);
    struct tensor_store_state tensors = tensor_store_state(services->tensors);
    struct jobs_counts jobs = jobs_counts(services->jobs);
    struct shm_counts shm = shm_store_counts(services->shm_store);
    const struct config *config = services->config;
    struct metrics_gauges gauges = {
        .requests_waiting = queue.waiting,
        .requests_running = device_in_flight(services->device),
        .connections = atomic_load(&services->http->connections),
        .connections_capacity = config->max_connections,
        .ready = stage == HTTP_SERVING && !device_lost(services->device) &&
                 dispatch_stalled_ns(services->dispatch) == 0,
        .device_stalled = dispatch_stalled_ns(services->dispatch) > 0,
        .draining = stage != HTTP_SERVING,
        .device_restarts = services->device_restarts,
        .queue_requests = queue.reserved,
        .queue_bytes = queue.reserved_bytes,
        .queue_capacity_bytes = config->queue_bytes,
        .queue_capacity_requests = config->queue_requests,
        .tenant_capacity_requests = config->tenant_requests,
        .tenant_capacity_bytes = config->tenant_bytes,
        .tenant_capacity_tensor_bytes = config->tenant_tensor_bytes,
        .pinned_used_bytes = pool_used_bytes(services->pool),
        .pinned_capacity_bytes = pool_capacity_bytes(services->pool),
        .kernels_left_out = device_left_out(services->device, &left_out),
        .device_used_bytes = arena == NULL ? 0 : arena_used_bytes(arena),
        .device_capacity_bytes = arena == NULL ? 0 : arena_capacity_bytes(arena),
        .jobs = {[METRICS_JOB_RECEIVING] = jobs.states[JOB_RECEIVING],
                 [METRICS_JOB_QUEUED] = jobs.states[JOB_QUEUED],
                 [METRICS_JOB_RUNNING] = jobs.states[JOB_RUNNING],
                 [METRICS_JOB_DONE] = jobs.states[JOB_DONE],
                 [METRICS_JOB_FAILED] = jobs.states[JOB_FAILED],
                 [METRICS_JOB_CANCELLED] = jobs.states[JOB_CANCELLED]},
        .jobs_capacity = config->max_jobs,
        .job_bytes = jobs.bytes,
        .job_capacity_bytes = config->job_bytes,
        .jobs_created = jobs.created,
        .jobs_cancelled = jobs.cancelled,
        .jobs_expired = jobs.expired,
        .reloads_succeeded = atomic_load(&services->reloads.succeeded),
        .reloads_failed = atomic_load(&services->reloads.failed),
        .reload_last_succeeded = atomic_load(&services->reloads.last_succeeded),
        .reload_last_success_seconds = atomic_load(&services->reloads.last_success_seconds),
        .verified_asked =
            verifications_of(dispatch_verify_counts(services->dispatch), WORK_VERIFY_ASKED),
        .verified_sampled =
            verifications_of(dispatch_verify_counts(services->dispatch), WORK_VERIFY_SAMPLED),
        .verifies_sample = config->verify_share > 0,
        .log_dropped_lines = log_dropped(services->log),
        .shared_memories = shm.mappings,
        .shared_capacity_memories = shm.capacity_mappings,
        .shared_bytes = shm.bytes,
        .shared_capacity_bytes = shm.capacity_bytes,
        .shared_regions = regions_count(services->regions),
        .tensor_used_bytes = tensors.used_bytes,
        .tensor_capacity_bytes = tensors.capacity_bytes,
        .tensor_count = tensors.count,
        .tensor_hits = tensors.hits,
        .tensor_misses = tensors.misses,
        .tensor_evictions = tensors.evictions,
    };
    const struct device_info *info = device_info(services->device);
    memcpy(gauges.peak_flops, info->peak_flops, sizeof gauges.peak_flops);
    gauges.peak_memory_bytes = info->peak_memory_bytes;
    gauges.exports_spans = services->http->otlp != NULL;
    if (gauges.exports_spans) {
        const struct otlp_counts spans = otlp_counts(services->http->otlp);
        gauges.spans_sent = spans.sent;
        gauges.spans_dropped = spans.dropped;
    }
    const struct tokens *tokens = services->http->tokens;
    gauges.shows_exemplars =
        tokens == NULL || tokens_tenants(tokens) < 2 || tokens_sees_all(tokens, viewer);
    _Static_assert((int)ADMISSION_LIMIT_COUNT < (int)METRICS_LIMITS_MAX, "all limits fit");
    for (int limit = 0; limit < ADMISSION_LIMIT_COUNT; limit++)
        gauges.limits[gauges.limit_count++] =
            (struct metrics_limit){admission_limit_name((enum admission_limit)limit),
                                   admission_refused(admission, (enum admission_limit)limit)};
    gauges.limits[gauges.limit_count++] =
        (struct metrics_limit){"tenant-jobs", jobs.refused_tenants};
    add_tenants(services, viewer, &gauges);
    return gauges;
}
