#include "server/daemon.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/dashboard/sampler.h"
#include "server/api/endpoints.h"
#include "server/base/clock.h"
#include "server/daemon_devices.h"
#include "server/device/host_memory.h"
#include "server/device/memory/memory_limit.h"
#include "server/device/memory/page_toucher.h"
#include "server/http/acceptor.h"
#include "server/http/tls.h"
#include "server/http/tokens.h"
#include "server/jobs/job_thread.h"
#include "server/jobs/jobs.h"
#include "server/main_loop.h"
#include "server/net/descriptors.h"
#include "server/net/handover.h"
#include "server/observe/history.h"
#include "server/observe/notable.h"
#include "server/observe/nvml.h"
#include "server/observe/otlp.h"
#include "server/reload.h"
#include "server/shm/shm_store.h"

/* How long daemon_stop waits for the device to finish its last work. */
static const uint64_t LAST_WORK_NS = 200000000;

/* Lowers --max-connections to the number of connections that the process has file descriptors for.
 * A connection without a descriptor would wait unanswered, while a connection over the limit gets
 * an answer. */
static void lower_max_connections(struct daemon *daemon)
{
    struct config *config = &daemon->config;
    const uint32_t threads = daemon->http.thread_count;
    const uint64_t files = descriptors_raise(config->max_connections, threads);
    const uint32_t room = descriptors_suffice_for(files, config->max_connections, threads);
    if (room == config->max_connections)
        return;
    log_event(daemon->log, CONFIG_LOG_WARNING,
              "--max-connections is %" PRIu32 " and is lowered to %" PRIu32
              ", since the system allows %" PRIu64 " open files (ulimit -n, LimitNOFILE=)",
              config->max_connections, room, files);
    config->max_connections = room;
    if (config->max_connections_per_address > room)
        config->max_connections_per_address = room;
}

static enum gemmd_error load_tokens(struct daemon *daemon, struct fault *fault)
{
    const char *path = daemon->config.token_file;
    if (path == NULL)
        return GEMMD_OK;
    return tokens_load(path, &daemon->tokens, fault);
}

static enum gemmd_error load_certificates(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    return config->tls_cert == NULL ? GEMMD_OK : tls_create(config, &daemon->tls, fault);
}

/* The number of tenants that tables have room for. A reload of the token file may name more tenants
 * than the file named at the start. */
static uint32_t tenants_max(const struct daemon *daemon)
{
    return daemon->tokens == NULL ? 1 : (uint32_t)TENANTS_MAX;
}

/* Lets the tenants of --metrics-tenant see the metrics of all tenants. A tenant that the token file
 * does not name is an error. */
static enum gemmd_error load_metrics_tenants(struct daemon *daemon, struct fault *fault)
{
    const char *names = daemon->config.metrics_tenants;
    while (names != NULL && *names != '\0') {
        const size_t length = strcspn(names, ",");
        if (daemon->tokens == NULL || !tokens_show_all(daemon->tokens, names, length))
            return fault_set(fault, GEMMD_ERR_USAGE, "metrics-tenant",
                             "--metrics-tenant names '%.*s', and the token file has no such tenant",
                             length < 64 ? (int)length : 64, names);
        names += length;
        names += *names == ',';
    }
    return GEMMD_OK;
}

/* Reads the files that the options name: tokens and certificates. */
static enum gemmd_error load_files(struct daemon *daemon, struct fault *fault)
{
    enum gemmd_error code = load_tokens(daemon, fault);
    if (code == GEMMD_OK)
        code = load_metrics_tenants(daemon, fault);
    if (code == GEMMD_OK)
        code = load_certificates(daemon, fault);
    return code;
}

/* The collector of spans, as the options give it. */
static struct otlp_collector collector_of(const struct config *config)
{
    return (struct otlp_collector){.endpoint = config->otlp_endpoint,
                                   .header_file = config->otlp_header_file,
                                   .ca_file = config->otlp_ca_file};
}

enum gemmd_error daemon_check(struct daemon *daemon, char warning[TLS_WARNING_MAX],
                              struct fault *fault)
{
    const struct otlp_collector collector = collector_of(&daemon->config);
    enum gemmd_error code = load_files(daemon, fault);
    warning[0] = '\0';
    if (code == GEMMD_OK && daemon->tls != NULL)
        (void)tls_warns(daemon->tls, warning);
    tokens_free(daemon->tokens);
    tls_destroy(daemon->tls);
    daemon->tokens = NULL;
    daemon->tls = NULL;
    if (code == GEMMD_OK)
        code = acceptor_check(&daemon->config, fault);
    if (code == GEMMD_OK && collector.endpoint != NULL)
        code = otlp_check(&collector, fault);
    return code;
}

/* ---- the device and its memory ---- */

/* Opens the devices, and allocates the pinned memory, which all devices use. If the devices are on
 * several NUMA nodes, the pages lie on all these nodes, because any device may use any block. */
static enum gemmd_error open_memory(struct daemon *daemon, enum gemm_backend backend,
                                    struct fault *fault)
{
    const struct config *config = &daemon->config;
    struct services *services = &daemon->services;
    struct device_choice choice;
    enum gemmd_error code = device_choice_read(backend, config->devices, &choice, fault);
    if (code != GEMMD_OK)
        return code;
    /* Other threads touch the pages of the pinned memory while the devices are opened. */
    daemon->host_memory = host_memory_begin(backend, config->pinned_bytes,
                                            daemon_devices_host_nodes(backend, &choice), fault);
    if (daemon->host_memory == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    code = daemon_devices_open(config, daemon->log, &services->executors, backend, &choice, fault);
    if (code != GEMMD_OK)
        return code;
    daemon->pinned = host_memory_finish(daemon->host_memory, fault);
    if (daemon->pinned == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    daemon_devices_warn_of_memory(config, daemon->log, &services->executors, backend);
    services->pool = pool_create(daemon->pinned, config->pinned_bytes);
    if (services->pool == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the queue");
    return GEMMD_OK;
}

/* Creates the stores of resident tensors and of clients' shared memory. */
static enum gemmd_error open_stores(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    struct services *services = &daemon->services;
    const struct executors *executors = &services->executors;
    struct device *devices[DEVICES_MAX] = {NULL};
    struct device_span memories[DEVICES_MAX] = {{NULL, 0}};
    for (uint32_t i = 0; i < executors->count; i++) {
        devices[i] = executors->list[i].device;
        memories[i] = device_tensor_memory(devices[i]);
    }
    const struct gemm_device device = device_gemm(executors->list[0].device);
    services->tensors =
        tensor_store_create(memories, executors->count, &device, config->tenant_tensor_bytes);
    if (services->tensors == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the tensors' names");
    const struct shm_limits limits = {config->shm_bytes, config->shm_regions};
    services->shm_store = shm_store_create(&limits, devices, executors->count);
    const struct region_limits names = {
        .regions = config->shm_regions,
        .tenant_regions = config->tenant_regions,
        .tenant_bytes = config->tenant_region_bytes,
    };
    services->regions = regions_create(&names);
    if (services->shm_store == NULL || services->regions == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for clients' memory");
    return GEMMD_OK;
}

/* Starts the thread that touches the memory that uploads are received into and copied to. On a GPU
 * the pinned memory is touched already. The daemon serves without the thread. */
static void start_toucher(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    const struct config *config = &daemon->config;
    struct page_span spans[PAGE_SPANS_MAX];
    uint32_t count = 0;
    _Static_assert((int)DEVICES_MAX < (int)PAGE_SPANS_MAX, "the pinned memory and all devices fit");
    if (device_info(services->executors.list[0].device)->backend != GEMM_BACKEND_CPU)
        return;
    spans[count++] = (struct page_span){daemon->pinned, config->pinned_bytes};
    for (uint32_t i = 0; i < services->executors.count; i++) {
        const struct device_span span = device_tensor_memory(services->executors.list[i].device);
        spans[count++] = (struct page_span){span.start, span.bytes};
    }
    const double share = (double)config->touch_share / CONFIG_SHARE_ONE;
    services->toucher = page_toucher_start(
        spans, count, (uint64_t)(share * (double)memory_limit_bytes()), daemon->log);
}

static enum gemmd_error open_admission(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    const struct admission_limits limits = {
        .requests = config->queue_requests,
        .bytes = config->queue_bytes,
        .tenants = tenants_max(daemon),
        .tenant_requests = config->tenant_requests,
        .tenant_bytes = config->tenant_bytes,
        .tenant_share_bytes = config->tenant_share_bytes,
    };
    daemon->services.admission = admission_create(&limits);
    if (daemon->services.admission == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the queue");
    return GEMMD_OK;
}

/* Creates the metrics, with one shard for each writing thread: the I/O threads have the first
 * shards, the dispatch threads have the next, and the main thread has the last. */
static enum gemmd_error open_metrics(struct daemon *daemon, enum gemm_backend backend,
                                     struct fault *fault)
{
    struct services *services = &daemon->services;
    const struct metrics_identity identity = {
        .version = GEMMD_VERSION,
        .revision = services->revision,
        .backend = gemm_backend_name(backend),
        .library = gemm_backend_library(backend),
        .mhd = MHD_get_version(),
        .arch = device_info(services->executors.list[0].device)->arch,
    };
    const uint32_t devices = services->executors.count;
    daemon->http.metrics = metrics_create(daemon->http.thread_count + devices + 1, &identity);
    if (daemon->http.metrics == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the metrics");
    if (daemon->tokens != NULL && !metrics_count_tenants(daemon->http.metrics, tenants_max(daemon)))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the metrics");
    daemon->http.main_shard =
        metrics_shard(daemon->http.metrics, daemon->http.thread_count + devices);
    return GEMMD_OK;
}

static void log_device(const struct daemon *daemon, const struct device_info *info)
{
    log_event(daemon->log, CONFIG_LOG_INFO,
              "computing on %s (%s, %s), device %d: opened in %.2f s, tested in %.2f s, warmed in "
              "%.2f s",
              info->name, gemm_backend_name(info->backend), gemm_backend_library(info->backend),
              (int)info->index, (double)info->open_ns * 1e-9, (double)info->test_ns * 1e-9,
              (double)info->warm_ns * 1e-9);
}

/* Creates the queue of a device, starts its dispatch thread, and runs each kind of launch once on
 * the device. `number` is the executor's place in the list. */
static enum gemmd_error start_executor(struct daemon *daemon, uint32_t number,
                                       const struct executor_settings *settings,
                                       struct fault *fault)
{
    struct executor *executor = &daemon->services.executors.list[number];
    struct metrics_shard *shard =
        metrics_shard(daemon->http.metrics, daemon->http.thread_count + number);
    enum gemmd_error code = executor_open(executor, settings, fault);
    if (code == GEMMD_OK)
        code = executor_start(executor, settings, shard, fault);
    if (code == GEMMD_OK)
        log_device(daemon, device_info(executor->device));
    return code;
}

static enum gemmd_error start_executors(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    struct services *services = &daemon->services;
    const struct executor_settings settings = {
        .admission = services->admission,
        .tenants = tenants_max(daemon),
        .pool = services->pool,
        .max_launch_works = config->max_batch,
        .busy_poll_us = config->busy_poll_us,
        .stall_ns = config->stall_ms * UINT64_C(1000000),
    };
    if (!verify_draw_init(&services->verify_draw))
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the system gives no random numbers");
    enum gemmd_error code = GEMMD_OK;
    for (uint32_t i = 0; i < services->executors.count && code == GEMMD_OK; i++)
        code = start_executor(daemon, i, &settings, fault);
    return code;
}

/* Starts the parts that computing needs: devices, stores, metrics, queues and dispatch threads. */
static enum gemmd_error start_compute(struct daemon *daemon, struct fault *fault)
{
    enum gemm_backend backend;
    enum gemmd_error code = daemon_devices_choose_backend(&daemon->config, &backend, fault);
    if (code == GEMMD_OK)
        code = open_memory(daemon, backend, fault);
    if (code == GEMMD_OK)
        code = open_stores(daemon, fault);
    if (code == GEMMD_OK)
        code = open_admission(daemon, fault);
    if (code == GEMMD_OK)
        code = open_metrics(daemon, backend, fault);
    if (code == GEMMD_OK)
        code = start_executors(daemon, fault);
    return code;
}

static enum gemmd_error start_jobs(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    struct services *services = &daemon->services;
    const struct jobs_limits limits = {
        .max_jobs = config->max_jobs,
        .max_bytes = config->job_bytes,
        .ttl_ns = config->job_ttl_ms * UINT64_C(1000000),
        .tenants = tenants_max(daemon),
        .tenant_jobs = config->tenant_jobs,
        .tenant_bytes = config->tenant_job_bytes,
    };
    services->jobs = jobs_create(&limits);
    if (services->jobs == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for jobs");
    services->job_thread = job_thread_start(services->jobs, services->pool, tenants_max(daemon));
    if (services->job_thread == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the thread of the jobs did not start");
    return GEMMD_OK;
}

/* Starts the thread that samples GPUs. The daemon serves without NVML. */
static void start_nvml(struct daemon *daemon)
{
    const struct executors *executors = &daemon->services.executors;
    const char *uuids[DEVICES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < executors->count; i++) {
        uuids[count] = device_info(executors->list[i].device)->uuid;
        count += uuids[count][0] != '\0';
    }
    if (daemon->config.gpu_metrics == CONFIG_GPU_METRICS_ALL)
        daemon->services.nvml = nvml_start(NULL, 0, daemon->log);
    else if (daemon->config.gpu_metrics == CONFIG_GPU_METRICS_AUTO && count > 0)
        daemon->services.nvml = nvml_start(uuids, count, daemon->log);
}

/* Starts the thread that samples the daemon for the dashboard. */
static enum gemmd_error start_sampler(struct daemon *daemon, struct fault *fault)
{
    struct services *services = &daemon->services;
    services->history = history_create();
    services->notable = notable_create(tenants_max(daemon));
    if (services->history == NULL || services->notable == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the history");
    daemon->http.notable = services->notable;
    services->sampler = sampler_start(services);
    if (services->sampler == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the sampler's thread did not start");
    return GEMMD_OK;
}

/* Starts the threads that sample GPUs and that export spans. */
static enum gemmd_error start_observers(struct daemon *daemon, struct fault *fault)
{
    const struct config *config = &daemon->config;
    start_nvml(daemon);
    if (config->otlp_endpoint == NULL)
        return GEMMD_OK;
    const struct otlp_collector collector = collector_of(config);
    return otlp_start(&collector, GEMMD_VERSION, daemon->log, &daemon->http.otlp, fault);
}

/* ---- start, run, stop ---- */

static void prepare_http_server(struct daemon *daemon)
{
    struct http_server *http = &daemon->http;
    http->options = &daemon->options;
    http->log = daemon->log;
    http->tokens = daemon->tokens;
    http->tls = daemon->tls;
    http->routes = routes;
    http->services = &daemon->services;
    http->thread_services_create = services_thread_create;
    http->thread_services_destroy = services_thread_destroy;
}

static enum gemmd_error open_main_loop(struct daemon *daemon, struct fault *fault)
{
    daemon->reload = reload_create(&daemon->given, daemon->argc, daemon->argv, &daemon->services);
    if (daemon->reload == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for reloads");
    const struct main_loop_signals signals = {daemon->reload, daemon->argv, &daemon->restarts};
    return main_loop_create(&daemon->services, &signals, &daemon->loop, fault);
}

enum gemmd_error daemon_start(struct daemon *daemon, struct fault *fault)
{
    daemon->services.started_ns = clock_now_ns();
    daemon->restarts = device_restarts_read(getenv(DEVICE_RESTARTS_VARIABLE));
    daemon->services.device_restarts = daemon->restarts.count;
    daemon->given = daemon->config;
    daemon->services.log = daemon->log;
    daemon->services.http = &daemon->http;
    http_server_plan(&daemon->http, &daemon->config);
    lower_max_connections(daemon);
    enum gemmd_error code = load_files(daemon, fault);
    if (code != GEMMD_OK)
        return code;
    char warning[TLS_WARNING_MAX];
    if (daemon->tls != NULL && tls_warns(daemon->tls, warning))
        log_event(daemon->log, CONFIG_LOG_WARNING, "%s", warning);
    config_divide(&daemon->config,
                  daemon->tokens == NULL ? 1 : tokens_tenants_named(daemon->tokens));
    config_in_force_init(&daemon->options, &daemon->config);
    prepare_http_server(daemon);
    code = http_server_open(&daemon->http, fault);
    /* The listening sockets are opened before the device, so that a second daemon on the same
     * address fails before it has used the GPU. */
    if (code == GEMMD_OK)
        code = open_main_loop(daemon, fault);
    if (code == GEMMD_OK)
        code = start_compute(daemon, fault);
    if (code == GEMMD_OK)
        code = start_jobs(daemon, fault);
    if (code == GEMMD_OK)
        code = start_observers(daemon, fault);
    if (code == GEMMD_OK)
        code = start_sampler(daemon, fault);
    daemon->http.shm_store = daemon->services.shm_store;
    if (code == GEMMD_OK)
        start_toucher(daemon);
    if (code == GEMMD_OK)
        code = http_server_start(&daemon->http, fault);
    return code;
}

bool daemon_run(struct daemon *daemon)
{
    main_loop_run(daemon->loop);
    const struct jobs_counts jobs = jobs_counts(daemon->services.jobs);
    const uint32_t lost = jobs.states[JOB_DONE] + jobs.states[JOB_FAILED];
    if (lost > 0)
        log_event(daemon->log, CONFIG_LOG_WARNING,
                  "the results of %" PRIu32 " jobs that nobody has deleted are lost", lost);
    log_event(daemon->log, CONFIG_LOG_INFO, "drained");
    return !executors_are_lost(&daemon->services.executors);
}

/* Stops all threads. Returns false if a device still computes after LAST_WORK_NS. */
static bool stop_threads(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    sampler_stop(services->sampler); /* first, since it reads the queues and dispatch threads */
    const bool idle = executors_stop(&services->executors, LAST_WORK_NS);
    if (idle)
        job_thread_stop(services->job_thread);
    if (services->jobs != NULL)
        jobs_close(services->jobs);
    shm_store_stop(services->shm_store);
    http_server_stop(&daemon->http);
    page_toucher_stop(services->toucher); /* last, since requests for /info read its progress */
    services->toucher = NULL;
    return idle;
}

/* Executes the program again. The kernel frees the memory of this process and closes its device
 * before the program begins, even if the driver does not answer any more. Returns after a failure.
 */
static void replace_daemon(struct daemon *daemon, const struct handover_socket *sockets,
                           uint32_t count)
{
    struct fault fault = {.code = GEMMD_ERR_OUT_OF_MEMORY, .detail = "there is no memory"};
    if (device_restarts_add(&daemon->restarts, clock_now_ns())) {
        log_event(daemon->log, CONFIG_LOG_INFO, "executing %s again, with the listening sockets",
                  daemon->argv[0]);
        log_sync(daemon->log);
        handover_execute(daemon->argv, sockets, count, &fault);
    }
    log_event(daemon->log, CONFIG_LOG_ERROR, "the daemon ends: %s", fault.detail);
}

bool daemon_stop(struct daemon *daemon)
{
    struct services *services = &daemon->services;
    struct handover_socket sockets[CONFIG_LISTEN_MAX];
    uint32_t count;
    const bool idle = stop_threads(daemon);
    if (daemon->loop != NULL && main_loop_restarts(daemon->loop, sockets, &count)) {
        replace_daemon(daemon, sockets, count);
        return false;
    }
    if (!idle)
        return false;
    job_thread_destroy(services->job_thread);
    http_server_close(&daemon->http);
    otlp_stop(daemon->http.otlp);
    nvml_stop(services->nvml);
    notable_destroy(services->notable);
    history_destroy(services->history);
    jobs_destroy(services->jobs);
    main_loop_destroy(daemon->loop);
    reload_destroy(daemon->reload);
    metrics_destroy(daemon->http.metrics);
    executors_destroy(&services->executors);
    admission_destroy(services->admission);
    regions_destroy(services->regions);
    shm_store_destroy(services->shm_store);
    tensor_store_destroy(services->tensors);
    pool_destroy(services->pool);
    host_memory_free(daemon->host_memory);
    executors_close_devices(&services->executors);
    tokens_free(daemon->tokens);
    tls_destroy(daemon->tls);
    return true;
}
