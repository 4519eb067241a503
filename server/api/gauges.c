#include "server/api/gauges.h"

#include <string.h>

#include "server/api/services.h"
#include "server/http/tls.h"
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
        gauges->tenants[at].first = named ? i : METRICS_TENANTS_MAX;
        gauges->tenants[at].end = i + 1;
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

static void add_verifications(struct metrics_verifications *sum, const struct verify_counts *counts,
                              enum work_verify by)
{
    sum->pass += atomic_load(&counts->count[by][VERIFY_PASS]);
    sum->fail += atomic_load(&counts->count[by][VERIFY_FAIL]);
    sum->error += atomic_load(&counts->count[by][VERIFY_ERROR]);
}

/* The sums over all devices. */
struct devices_state {
    uint32_t waiting, running; /* works */
    bool stalled;              /* any device */
    uint32_t kernels_left_out;
    uint64_t used_bytes, capacity_bytes;
    double peak_flops[GEMMD_DTYPE_COUNT], peak_memory_bytes;
    struct metrics_verifications verified[WORK_VERIFY_COUNT];
};

static struct devices_state devices_read(const struct executors *executors)
{
    struct devices_state state = {.waiting = 0};
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct executor *executor = &executors->list[i];
        const struct device_info *info = device_info(executor->device);
        const struct arena *arena = device_arena(executor->device);
        const struct verify_counts *counts = dispatch_verify_counts(executor->dispatch);
        const struct device_left_out *left_out;
        const bool stalled = dispatch_stalled_ns(executor->dispatch) > 0;
        state.waiting += queue_state(executor->queue).waiting;
        state.running += device_in_flight(executor->device);
        state.stalled = state.stalled || stalled;
        state.kernels_left_out += device_left_out(executor->device, &left_out);
        state.used_bytes += arena == NULL ? 0 : arena_used_bytes(arena);
        state.capacity_bytes += arena == NULL ? 0 : arena_capacity_bytes(arena);
        for (int dtype = 0; dtype < GEMMD_DTYPE_COUNT; dtype++)
            state.peak_flops[dtype] += info->peak_flops[dtype];
        state.peak_memory_bytes += info->peak_memory_bytes;
        add_verifications(&state.verified[WORK_VERIFY_ASKED], counts, WORK_VERIFY_ASKED);
        add_verifications(&state.verified[WORK_VERIFY_SAMPLED], counts, WORK_VERIFY_SAMPLED);
    }
    return state;
}

/* The values of each device, if there are several. */
static void add_devices(struct services *services, struct metrics_gauges *gauges)
{
    const struct executors *executors = &services->executors;
    _Static_assert((int)DEVICES_MAX <= (int)METRICS_DEVICES_MAX, "all devices fit");
    for (uint32_t i = 0; i < executors->count && executors->count > 1; i++) {
        const struct executor *executor = &executors->list[i];
        const struct arena *arena = device_arena(executor->device);
        const struct tensor_store_state tensors = tensor_store_state_on(services->tensors, i);
        struct metrics_device *device = &gauges->devices[gauges->device_count++];
        *device = (struct metrics_device){
            .number = device_info(executor->device)->index,
            .uuid = device_info(executor->device)->uuid,
            .lost = device_lost(executor->device),
            .waiting = queue_state(executor->queue).waiting,
            .running = device_in_flight(executor->device),
            .used_bytes = arena == NULL ? 0 : arena_used_bytes(arena),
            .capacity_bytes = arena == NULL ? 0 : arena_capacity_bytes(arena),
            .tensor_used_bytes = tensors.used_bytes,
            .tensor_capacity_bytes = tensors.capacity_bytes,
        };
        metrics_device_read(executor->shard, device);
    }
}

/* Adds how many requests each limit of admission and of jobs has refused. */
static void add_limits(const struct admission *admission, const struct jobs_counts *jobs,
                       struct metrics_gauges *gauges)
{
    _Static_assert((int)ADMISSION_LIMIT_COUNT < (int)METRICS_LIMITS_MAX, "all limits fit");
    for (int i = 0; i < ADMISSION_LIMIT_COUNT; i++) {
        const enum admission_limit limit = (enum admission_limit)i;
        gauges->limits[gauges->limit_count++] = (struct metrics_limit){
            admission_limit_name(limit), admission_refused(admission, limit)};
    }
    gauges->limits[gauges->limit_count++] =
        (struct metrics_limit){"tenant-jobs", jobs->refused_tenants};
}

/* Adds how many spans were exported, if spans are exported. */
static void add_spans(const struct http_server *http, struct metrics_gauges *gauges)
{
    gauges->exports_spans = http->otlp != NULL;
    if (!gauges->exports_spans)
        return;
    const struct otlp_counts spans = otlp_counts(http->otlp);
    gauges->spans_sent = spans.sent;
    gauges->spans_dropped = spans.dropped;
}

struct metrics_gauges gauges_read(struct services *services, const struct config *config,
                                  uint32_t viewer)
{
    const struct devices_state devices = devices_read(&services->executors);
    struct admission *admission = services->admission;
    const struct admission_held held = admission_held(admission);
    enum http_stage stage = atomic_load(&services->http->stage);
    struct tensor_store_state tensors = tensor_store_state(services->tensors);
    struct jobs_counts jobs = jobs_counts(services->jobs);
    struct shm_counts shm = shm_store_counts(services->shm_store);
    struct metrics_gauges gauges = {
        .requests_waiting = devices.waiting,
        .requests_running = devices.running,
        .connections = atomic_load(&services->http->connections),
        .connections_capacity = config->max_connections,
        .ready = stage == HTTP_SERVING && executors_usable(&services->executors) > 0,
        .device_stalled = devices.stalled,
        .draining = stage != HTTP_SERVING,
        .device_restarts = services->device_restarts,
        .queue_requests = held.requests,
        .queue_bytes = held.bytes,
        .queue_capacity_bytes = config->queue_bytes,
        .queue_capacity_requests = config->queue_requests,
        .tenant_capacity_requests = config->tenant_requests,
        .tenant_capacity_bytes = config->tenant_bytes,
        .tenant_capacity_tensor_bytes = config->tenant_tensor_bytes,
        .pinned_used_bytes = pool_used_bytes(services->pool),
        .pinned_capacity_bytes = pool_capacity_bytes(services->pool),
        .kernels_left_out = devices.kernels_left_out,
        .device_used_bytes = devices.used_bytes,
        .device_capacity_bytes = devices.capacity_bytes,
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
        .handovers_failed = atomic_load(&services->handovers_failed),
        .certificate_expiry_seconds =
            services->http->tls == NULL ? 0 : tls_expiry_seconds(services->http->tls),
        .verified_asked = devices.verified[WORK_VERIFY_ASKED],
        .verified_sampled = devices.verified[WORK_VERIFY_SAMPLED],
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
    memcpy(gauges.peak_flops, devices.peak_flops, sizeof gauges.peak_flops);
    gauges.peak_memory_bytes = devices.peak_memory_bytes;
    const struct tokens *tokens = services->http->tokens;
    gauges.shows_exemplars =
        tokens == NULL || tokens_tenants(tokens) < 2 || tokens_sees_all(tokens, viewer);
    add_spans(services->http, &gauges);
    add_limits(admission, &jobs, &gauges);
    add_tenants(services, viewer, &gauges);
    add_devices(services, &gauges);
    return gauges;
}
