#include "server/daemon.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/device/device_copy.h"
#include "server/device/memory/host_memory.h"
#include "server/device/memory/memory_limit.h"
#include "server/http/io_thread.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/jobs.h"
#include "server/net/acceptor.h"
#include "server/net/descriptors.h"
#include "server/net/peer_counts.h"
#include "server/scheduler/warm_up.h"

/* When all else has ended or was given up: how long the device is waited for. */
static const uint64_t LAST_WORK_NS = 200000000;

uint32_t daemon_shard_dispatch(const struct daemon *daemon)
{
    return daemon->io_thread_count;
}

uint32_t daemon_shard_main(const struct daemon *daemon)
{
    return daemon->io_thread_count + 1;
}

/* auto: the GPU if the host has a driver for one, and only then; a GPU that does not answer
 * is a failure, not a reason to compute a hundred times slower. */
static enum gemmd_error choose_backend(const struct config *config, enum gemm_backend *backend,
                                       struct fault *fault)
{
    uint32_t count = 0;
    *backend = GEMM_BACKEND_CPU;
    if (config->backend == CONFIG_BACKEND_CPU)
        return GEMMD_OK;
    enum gemmd_error code = device_count(GEMM_BACKEND_CUDA, &count, fault);
    if (code != GEMMD_OK)
        return code;
    if (count > 0)
        *backend = GEMM_BACKEND_CUDA;
    else if (config->backend == CONFIG_BACKEND_CUDA)
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, "backend",
                         "there is no CUDA device (or this build has no CUDA)");
    return GEMMD_OK;
}

static void log_left_out(const struct daemon *daemon)
{
    const struct device_left_out *list;
    const uint32_t count = device_left_out(daemon->device, &list);
    for (uint32_t i = 0; i < count; i++)
        log_event(daemon->log, CONFIG_LOG_ERROR, "the %skernel %s is not served: %s",
                  list[i].is_attention ? "attention " : "", list[i].kernel, list[i].reason);
}

/* Memory is taken as it is used: too much of it shows only when the system ends the process. */
static void warn_of_limits(const struct daemon *daemon, enum gemm_backend backend)
{
    const struct config *config = &daemon->config;
    const uint64_t there = memory_limit_bytes();
    const struct arena *arena = device_arena(daemon->device);
    uint64_t taken = config->pinned_bytes + config->job_bytes; /* options are 16 TiB at most */
    if (backend == GEMM_BACKEND_CPU && arena != NULL)
        taken += arena_capacity_bytes(arena) + config->tensor_bytes;
    if (there != 0 && taken > there)
        log_event(daemon->log, CONFIG_LOG_WARNING,
                  "--pinned-bytes, --job-bytes%s are %" PRIu64 " bytes together, and this process "
                  "may use %" PRIu64,
                  backend == GEMM_BACKEND_CPU ? ", --device-bytes and --tensor-bytes" : "", taken,
                  there);
}

static enum gemmd_error start_device(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    enum gemm_backend backend;
    enum gemmd_error code = choose_backend(config, &backend, fault);
    if (code != GEMMD_OK)
        return code;
    struct device_options options = {
        .backend = backend,
        .index = config->device,
        .streams = config->streams,
        .cpu_threads = config->cpu_threads,
        .memory_bytes = config->device_bytes,
        .tensor_bytes = config->tensor_bytes,
        .without_kernels = config->without_kernels,
    };
    daemon->host_memory = host_memory_begin(backend, config->pinned_bytes, fault);
    if (daemon->host_memory == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    code = device_open(&options, &daemon->device, fault);
    if (code != GEMMD_OK)
        return code;
    log_left_out(daemon);
    daemon->pinned = host_memory_finish(daemon->host_memory, fault);
    if (daemon->pinned == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    warn_of_limits(daemon, backend);
    daemon->pool = pool_create(daemon->pinned, config->pinned_bytes);
    const struct gemm_device device = device_gemm(daemon->device);
    daemon->tensors = tensor_store_create(device_tensor_memory(daemon->device), &device,
                                          config->tenant_tensor_bytes);
    if (daemon->tensors == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tensors' names");
    const struct shm_limits shared_limits = {config->shm_bytes, config->shm_regions};
    daemon->shm_store = shm_store_create(&shared_limits, daemon->device);
    daemon->regions = regions_create(config->shm_regions);
    if (daemon->shm_store == NULL || daemon->regions == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for clients' memory");
    const struct admission_limits limits = {
        .requests = config->queue_requests,
        .bytes = config->queue_bytes,
        .tenants = daemon->tokens == NULL ? 1 : tokens_tenants(daemon->tokens),
        .tenant_requests = config->tenant_requests,
        .tenant_bytes = config->tenant_bytes,
    };
    daemon->queue = queue_create(&limits);
    if (daemon->pool == NULL || daemon->queue == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the queue");

    if (device_copies_early(daemon->device)) {
        daemon->early_copy = early_copy_create(daemon->device, daemon->queue, daemon->pool);
        if (daemon->early_copy == NULL)
            return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for early copies");
    }

    const struct device_info *info = device_info(daemon->device);
    struct metrics_identity identity = {
        .version = GEMMD_VERSION,
        .revision = GEMMD_REVISION,
        .backend = backend == GEMM_BACKEND_CUDA ? "cuda" : "cpu",
        .library = gemm_backend_library(backend),
        .mhd = MHD_get_version(),
        .arch = info->arch,
    };
    daemon->metrics = metrics_create(daemon->io_thread_count + 2, &identity);
    if (daemon->metrics == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the metrics");
    daemon->dispatch = dispatch_start(daemon->device, daemon->queue, daemon->early_copy,
                                      metrics_shard(daemon->metrics, daemon_shard_dispatch(daemon)),
                                      config->max_batch, config->busy_poll_us);
    if (daemon->dispatch == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the dispatch thread did not start");
    code = warm_up(daemon->device, daemon->queue, daemon->pool, fault);
    if (code != GEMMD_OK)
        return code;
    log_event(daemon->log, CONFIG_LOG_INFO,
              "computing on %s (%s, %s): opened in %.2f s, tested in %.2f s, warmed in %.2f s",
              info->name, identity.backend, identity.library, (double)info->open_ns * 1e-9,
              (double)info->test_ns * 1e-9, (double)info->warm_ns * 1e-9);
    return GEMMD_OK;
}

static enum gemmd_error start_jobs(struct daemon *daemon, struct fault *fault)
{
    const struct jobs_limits limits = {
        .max_jobs = daemon->config.max_jobs,
        .max_bytes = daemon->config.job_bytes,
        .ttl_ns = daemon->config.job_ttl_ms * UINT64_C(1000000),
    };
    daemon->jobs = jobs_create(&limits);
    if (daemon->jobs == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for jobs");
    daemon->job_thread = job_thread_start(daemon->jobs, daemon->pool);
    if (daemon->job_thread == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the job thread did not start");
    return GEMMD_OK;
}

static enum gemmd_error start_io_threads(struct daemon *daemon, struct fault *fault)
{
    uint32_t wanted = daemon->io_thread_count;
    daemon->io_thread_count = 0;
    daemon->io_threads = calloc(wanted, sizeof *daemon->io_threads);
    if (daemon->io_threads == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for I/O threads");
    for (uint32_t i = 0; i < wanted; i++) {
        enum gemmd_error code = io_thread_start(daemon, i, &daemon->io_threads[i], fault);
        if (code != GEMMD_OK)
            return code;
        daemon->io_thread_count++;
    }
    return GEMMD_OK;
}

static uint32_t default_io_threads(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long threads = cores < 2 ? 1 : cores / 2;
    return (uint32_t)(threads > 16 ? 16 : threads);
}

/* A connection that no descriptor is left for would wait unanswered; one over the limit is told. */
static void make_room_for_connections(struct daemon *daemon)
{
    struct config *config = &daemon->config;
    const uint64_t files = descriptors_raise(config->max_connections, daemon->io_thread_count);
    const uint32_t room =
        descriptors_suffice_for(files, config->max_connections, daemon->io_thread_count);
    if (room == config->max_connections)
        return;
    log_event(daemon->log, CONFIG_LOG_WARNING,
              "--max-connections is %" PRIu32 " and is taken as %" PRIu32
              ", since the system allows %" PRIu64 " open files (ulimit -n, LimitNOFILE=)",
              config->max_connections, room, files);
    config->max_connections = room;
    if (config->max_connections_per_address > room)
        config->max_connections_per_address = room;
}

enum gemmd_error daemon_start(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    daemon->started_ns = clock_now_ns();
    uint32_t io_threads = config->io_threads != 0 ? config->io_threads : default_io_threads();
    daemon->bulk_thread_first = io_threads;
    daemon->io_thread_count = config->bulk_connections > 0 ? 2 * io_threads : io_threads;
    make_room_for_connections(daemon);
    if (config->token_file != NULL) {
        enum gemmd_error code = tokens_load(config->token_file, &daemon->tokens, fault);
        if (code != GEMMD_OK)
            return code;
        if (tokens_exposed(daemon->tokens))
            log_event(daemon->log, CONFIG_LOG_WARNING,
                      "every user of this host can read %s; chmod it to 0600", config->token_file);
    }
    daemon->peers =
        peer_counts_create(config->max_connections_per_address, config->max_connections);
    if (daemon->peers == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the acceptor");
    /* Listening first: an address in use is found out before a GPU is taken. */
    enum gemmd_error code = acceptor_create(daemon, &daemon->acceptor, fault);
    if (code == GEMMD_OK)
        code = start_device(daemon, fault);
    if (code == GEMMD_OK)
        code = start_jobs(daemon, fault);
    if (code == GEMMD_OK)
        code = start_io_threads(daemon, fault);
    return code;
}

void daemon_run(struct daemon *daemon)
{
    acceptor_run(daemon->acceptor);
    struct jobs_counts jobs = jobs_counts(daemon->jobs);
    uint32_t lost = jobs.states[JOB_DONE] + jobs.states[JOB_FAILED];
    if (lost > 0)
        log_event(daemon->log, CONFIG_LOG_WARNING,
                  "the results of %" PRIu32 " jobs that nobody has deleted are lost", lost);
}

bool daemon_stop(struct daemon *daemon)
{
    if (daemon->queue != NULL) {
        queue_close(daemon->queue);
        queue_fail_all(daemon->queue, GEMMD_ERR_DRAINING, "the daemon is shutting down");
    }
    bool idle = dispatch_stop(daemon->dispatch, LAST_WORK_NS);
    if (idle)
        job_thread_stop(daemon->job_thread);
    else
        dispatch_leave(daemon->dispatch);
    if (daemon->jobs != NULL)
        jobs_close(daemon->jobs);
    shm_store_stop(daemon->shm_store);
    for (uint32_t i = 0; i < daemon->io_thread_count && daemon->io_threads != NULL; i++)
        io_thread_stop(daemon->io_threads[i]);
    if (!idle)
        return false;
    for (uint32_t i = 0; i < daemon->io_thread_count && daemon->io_threads != NULL; i++)
        io_thread_destroy(daemon->io_threads[i]);
    free(daemon->io_threads);
    job_thread_destroy(daemon->job_thread);
    jobs_destroy(daemon->jobs);
    acceptor_destroy(daemon->acceptor);
    peer_counts_destroy(daemon->peers);
    metrics_destroy(daemon->metrics);
    early_copy_destroy(daemon->early_copy);
    queue_destroy(daemon->queue);
    regions_destroy(daemon->regions);
    shm_store_destroy(daemon->shm_store);
    tensor_store_destroy(daemon->tensors);
    pool_destroy(daemon->pool);
    host_memory_free(daemon->host_memory);
    if (daemon->device != NULL)
        device_close(daemon->device);
    tokens_free(daemon->tokens);
    return true;
}

uint32_t daemon_active_requests(const struct daemon *daemon)
{
    uint32_t active = 0;
    for (uint32_t i = 0; i < daemon->io_thread_count; i++)
        active += atomic_load(&daemon->io_threads[i]->active_requests);
    return active;
}

uint32_t daemon_unfinished(const struct daemon *daemon)
{
    return daemon_active_requests(daemon) + jobs_unfinished(daemon->jobs);
}

static void add_tenants(struct daemon *daemon, struct metrics_gauges *gauges)
{
    uint32_t tenants = daemon->tokens == NULL ? 0 : tokens_tenants(daemon->tokens);
    for (uint32_t i = 0; i < tenants; i++) {
        struct admission_held held = admission_held_by(queue_admission(daemon->queue), i);
        bool named = i < METRICS_TENANTS_MAX;
        uint32_t at = named ? i : METRICS_TENANTS_MAX;
        gauges->tenants[at].name = named ? tokens_tenant_name(daemon->tokens, i) : "(others)";
        gauges->tenants[at].requests += held.requests;
        gauges->tenants[at].bytes += held.bytes;
        gauges->tenants[at].tensor_bytes +=
            tensor_store_used_by(daemon->tensors, tokens_tenant_name(daemon->tokens, i));
        gauges->tenant_count = at + 1;
    }
}

struct metrics_gauges daemon_gauges(struct daemon *daemon)
{
    struct queue_state queue = queue_state(daemon->queue);
    struct admission *places = queue_admission(daemon->queue);
    struct arena *arena = device_arena(daemon->device);
    const struct device_left_out *left_out;
    enum daemon_stage stage = atomic_load(&daemon->stage);
    struct tensor_store_state tensors = tensor_store_state(daemon->tensors);
    struct jobs_counts jobs = jobs_counts(daemon->jobs);
    struct shm_counts shared = shm_store_counts(daemon->shm_store);
    struct metrics_gauges gauges = {
        .requests_waiting = queue.waiting,
        .requests_running = device_in_flight(daemon->device),
        .connections = atomic_load(&daemon->connections),
        .connections_capacity = daemon->config.max_connections,
        .ready = stage == DAEMON_SERVING && !device_lost(daemon->device),
        .draining = stage != DAEMON_SERVING,
        .queue_requests = queue.reserved,
        .queue_bytes = queue.reserved_bytes,
        .queue_capacity_bytes = daemon->config.queue_bytes,
        .queue_capacity_requests = daemon->config.queue_requests,
        .tenant_capacity_requests = daemon->config.tenant_requests,
        .tenant_capacity_bytes = daemon->config.tenant_bytes,
        .tenant_capacity_tensor_bytes = daemon->config.tenant_tensor_bytes,
        .pinned_used_bytes = pool_used_bytes(daemon->pool),
        .pinned_capacity_bytes = pool_capacity_bytes(daemon->pool),
        .kernels_left_out = device_left_out(daemon->device, &left_out),
        .device_used_bytes = arena == NULL ? 0 : arena_used_bytes(arena),
        .device_capacity_bytes = arena == NULL ? 0 : arena_capacity_bytes(arena),
        .jobs = {[METRICS_JOB_RECEIVING] = jobs.states[JOB_RECEIVING],
                 [METRICS_JOB_QUEUED] = jobs.states[JOB_QUEUED],
                 [METRICS_JOB_RUNNING] = jobs.states[JOB_RUNNING],
                 [METRICS_JOB_DONE] = jobs.states[JOB_DONE],
                 [METRICS_JOB_FAILED] = jobs.states[JOB_FAILED],
                 [METRICS_JOB_CANCELLED] = jobs.states[JOB_CANCELLED]},
        .jobs_capacity = daemon->config.max_jobs,
        .job_bytes = jobs.bytes,
        .job_capacity_bytes = daemon->config.job_bytes,
        .jobs_created = jobs.created,
        .jobs_cancelled = jobs.cancelled,
        .jobs_expired = jobs.expired,
        .log_dropped_lines = log_dropped(daemon->log),
        .shared_memories = shared.mappings,
        .shared_capacity_memories = shared.capacity_mappings,
        .shared_bytes = shared.bytes,
        .shared_capacity_bytes = shared.capacity_bytes,
        .shared_regions = regions_count(daemon->regions),
        .tensor_used_bytes = tensors.used_bytes,
        .tensor_capacity_bytes = tensors.capacity_bytes,
        .tensor_count = tensors.count,
        .tensor_hits = tensors.hits,
        .tensor_misses = tensors.misses,
        .tensor_evictions = tensors.evictions,
    };
    for (int limit = 0; limit < ADMISSION_LIMIT_COUNT; limit++)
        gauges.refused[limit] = admission_refused(places, (enum admission_limit)limit);
    add_tenants(daemon, &gauges);
    return gauges;
}
