/* GET /metrics, /info, /version and /openapi.json, which describe the daemon; and
 * /info?explain=..., which describes how a request would be computed. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/openapi.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/json_whole.h"
#include "server/device/memory/page_toucher.h"
#include "server/http/respond.h"
#include "server/http/tls.h"
#include "server/http/tokens.h"
#include "server/jobs/jobs.h"
#include "server/observe/metrics_totals.h"
#include "server/observe/nvml.h"
#include "server/observe/otlp.h"
#include "server/shm/shm_store.h"

/* ---- the gauges of the metrics ---- */

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

/* Reads the present values of all gauges, with the limits of the options `config`. Of the tenants,
 * only those are included that the tenant with the number `viewer` may see: itself, or all
 * (--metrics-tenant). Any thread. Strings are borrowed from the services. */
static struct metrics_gauges gauges_read(struct services *services, const struct config *config,
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
        .tensor_count = tensors.count + tensors.sequences,
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

/* ---- the endpoints ---- */

static void metrics_begin(struct request *request)
{
    struct metrics_gauges gauges =
        gauges_read(services_of(request), request->config, request->tenant_number);
    char accept[REQUEST_LIST_MAX];
    enum metrics_format format = metrics_negotiate(request_header_list(request, "Accept", accept));
    struct nvml_sample sample;
    struct nvml *nvml = services_of(request)->nvml;
    char *text;
    uint64_t length;
    if (nvml != NULL) {
        nvml_read(nvml, &sample);
        gauges.gpus = &sample;
    }
    if (!metrics_expose(request->server->metrics, &gauges, format, &text, &length))
        text = NULL;
    respond_text(request, 200, metrics_content_type(format), text);
}

/* Adds the result types `outs` of operands of a type, unless there are none. Takes over `outs`,
 * which may be NULL. False: there is no memory. */
static bool add_outs(json_t *types, enum gemmd_dtype dtype, json_t *outs)
{
    if (outs != NULL && json_array_size(outs) == 0) {
        json_decref(outs);
        return true;
    }
    return json_object_set_new(types, dtype_name(dtype), outs) == 0;
}

/* The operand types of the problems made by `example` that a kernel takes, each with the list of
 * its result types. */
static json_t *example_types(const struct operation_kernel *kernel,
                             bool (*example)(enum gemmd_dtype, enum gemmd_dtype, void *))
{
    union operation_problem problem;
    json_t *types = json_object();
    bool whole = types != NULL;
    for (int d = 0; d < GEMMD_DTYPE_COUNT; d++) {
        json_t *outs = json_array();
        for (int o = 0; o < GEMMD_DTYPE_COUNT; o++)
            if (example((enum gemmd_dtype)d, (enum gemmd_dtype)o, &problem) &&
                kernel->takes(&problem))
                whole &=
                    json_array_append_new(outs, json_string(dtype_name((enum gemmd_dtype)o))) == 0;
        whole &= add_outs(types, (enum gemmd_dtype)d, outs);
    }
    return json_whole(types, whole);
}

/* The types of ordinary problems, or of special problems if the kernel takes no others. */
static json_t *kernel_types(const struct operation *operation,
                            const struct operation_kernel *kernel)
{
    json_t *types = example_types(kernel, operation->example);
    if (types == NULL || json_object_size(types) > 0 || operation->special_example == NULL)
        return types;
    json_decref(types);
    return example_types(kernel, operation->special_example);
}

/* The properties of problems that a kernel takes, in some type; NULL if the operation has no
 * properties, or there is no memory. */
static json_t *kernel_properties(const struct operation *operation,
                                 const struct operation_kernel *kernel)
{
    const struct operation_property *property = operation->properties;
    json_t *names = property != NULL ? json_array() : NULL;
    bool whole = names != NULL;
    for (; property != NULL && property->name != NULL; property++) {
        int d = 0;
        while (d < GEMMD_DTYPE_COUNT &&
               !operation_takes_property(operation, kernel, property, (enum gemmd_dtype)d))
            d++;
        if (d < GEMMD_DTYPE_COUNT)
            whole &= json_array_append_new(names, json_string(property->name)) == 0;
    }
    return json_whole(names, whole);
}

/* The types of packed weights that a kernel takes. */
static json_t *packed_types(const struct operation *operation,
                            const struct operation_kernel *kernel)
{
    static const struct packed_layout layouts[] = {
        {.bits = 4},
        {.bits = 4, .has_zeros = true},
        {.bits = 8},
        {.bits = 8, .has_zeros = true},
        {.bits = 4, .element = PACKED_F4_E2M1},
        {.bits = 8, .element = PACKED_F8_E4M3},
    };
    union operation_problem problem;
    json_t *types = json_array();
    bool whole = types != NULL;
    if (operation->number != OPERATION_GEMM)
        return types;
    (void)operation->special_example(GEMMD_BF16, GEMMD_BF16, &problem);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct packed_layout *packed = &problem.gemm.packed;
        packed->bits = layouts[i].bits;
        packed->element = layouts[i].element;
        packed->has_zeros = layouts[i].has_zeros;
        if (kernel->takes(&problem))
            whole &= json_array_append_new(types, json_string(packed_type(packed))) == 0;
    }
    return json_whole(types, whole);
}

/* False: there is no memory. */
static bool add_kernel(json_t *kernels, const struct operation *operation,
                       const struct operation_kernel *kernel)
{
    json_t *properties = kernel_properties(operation, kernel);
    json_t *packed = packed_types(operation, kernel);
    const bool whole = packed != NULL && (operation->properties == NULL || properties != NULL);
    if (json_array_size(packed) == 0) {
        json_decref(packed);
        packed = NULL;
    }
    json_t *entry =
        json_pack("{s:s, s:s, s:s, s:o, s:o*, s:o*}", "name", kernel->name, "op", operation->name,
                  "description", kernel->description, "dtypes", kernel_types(operation, kernel),
                  "properties", properties, "packed", packed);
    return json_array_append_new(kernels, entry) == 0 && whole;
}

static json_t *kernels_json(struct gemm_device device)
{
    json_t *kernels = json_array();
    bool whole = kernels != NULL;
    for (uint32_t i = 0; i < OPERATION_COUNT; i++) {
        const struct operation *operation = operation_table[i];
        const struct operation_kernel *const *k = operation_kernels(operation, device.backend);
        for (; *k != NULL; k++)
            if (operation_kernel_runs_on(operation, *k, &device))
                whole &= add_kernel(kernels, operation, *k);
    }
    return json_whole(kernels, whole);
}

/* The kernels that this build has and that are not served, with the reason. */
static json_t *left_out_json(const struct executors *executors)
{
    json_t *left_out = json_array();
    bool whole = left_out != NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct device *device = executors->list[i].device;
        const struct device_left_out *list;
        const uint32_t count = device_left_out(device, &list);
        for (uint32_t j = 0; j < count; j++)
            whole &=
                json_array_append_new(left_out, json_pack("{s:s, s:s, s:i, s:s}", "name",
                                                          list[j].kernel, "op", list[j].operation,
                                                          "device", (int)device_info(device)->index,
                                                          "reason", list[j].reason)) == 0;
    }
    return json_whole(left_out, whole);
}

static json_t *device_json(const struct device_info *info, struct device *device)
{
    struct arena *arena = device_arena(device);
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:b}", "backend",
                     gemm_backend_name(info->backend), "index", (int)info->index, "name",
                     info->name, "uuid", info->uuid, "arch", info->arch, "driver", info->driver,
                     "memory_total_bytes", (json_int_t)info->memory_total_bytes,
                     "memory_capacity_bytes",
                     (json_int_t)(arena == NULL ? 0 : arena_capacity_bytes(arena)),
                     "memory_used_bytes", (json_int_t)(arena == NULL ? 0 : arena_used_bytes(arena)),
                     "stack_memory_bytes", (json_int_t)device_stack_memory(device), "peak",
                     services_peak_json(info), "lost", (int)device_lost(device));
}

static json_t *devices_json(const struct executors *executors)
{
    json_t *devices = json_array();
    bool whole = devices != NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        struct device *device = executors->list[i].device;
        whole &= json_array_append_new(devices, device_json(device_info(device), device)) == 0;
    }
    return json_whole(devices, whole);
}

/* How much memory has been touched ahead (page_toucher.h). */
static json_t *touched_json(const struct page_toucher *toucher)
{
    const struct page_progress progress = page_toucher_progress(toucher);
    return json_pack("{s:I, s:I, s:I, s:b}", "bytes", (json_int_t)progress.bytes, "wanted_bytes",
                     (json_int_t)progress.wanted_bytes, "large_page_bytes",
                     (json_int_t)progress.large_bytes, "ended", (int)progress.has_ended);
}

/* The text of a JSON document with a line feed at its end, which the caller frees. Takes over
 * `root`, which may be NULL. Returns NULL if memory ran out. */
static char *info_text(json_t *root, size_t flags)
{
    char *json = json_whole_text(root, flags), *text = NULL;
    if (json != NULL && asprintf(&text, "%s\n", json) < 0)
        text = NULL;
    free(json);
    return text;
}

/* ---- the explanation of a choice ---- */

/* What GET /info?explain=OPERATION&... is asked: the parameters of a request of the operation. */
struct explain_call {
    struct request *request;
    const struct call_operation *operation; /* NULL: nothing is to be explained */
    union call_request parameters;
};

static bool find_explain(void *context, const char *name, const char *value)
{
    static const struct call_operation *const operations[] = {
        &call_gemm, &call_attention, &call_conv2d, &call_reduce, &call_softmax, &call_experts};
    struct explain_call *call = context;
    if (strcmp(name, "explain") != 0)
        return true;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        if (strcmp(operations[i]->operation->name, value) == 0)
            call->operation = operations[i];
    if (call->operation != NULL)
        return true;
    fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, "explain",
              "explain is '%.32s'; it must be gemm, attention, conv2d, reduce, softmax or experts",
              value);
    return false;
}

/* Takes a parameter of the request that is to be explained. There are no operands, so that none can
 * be resident. */
static bool take_parameter(void *context, const char *name, const char *value)
{
    struct explain_call *call = context;
    const struct call_operation *operation = call->operation;
    bool is_resident = operation->sequence.at != 0 && strcmp(name, "sequence") == 0;
    if (strcmp(name, "explain") == 0)
        return true;
    for (int i = 0; i < 2; i++)
        is_resident |=
            operation->residents[i].name != NULL && strcmp(operation->residents[i].name, name) == 0;
    if (is_resident) {
        fault_set(&call->request->fault, GEMMD_ERR_MALFORMED, name,
                  "%s names something resident; an explanation takes the sizes and types alone",
                  name);
        return false;
    }
    return parameter_set(operation->parameters, &call->parameters, name, value,
                         &call->request->fault) == GEMMD_OK;
}

/* How fast the kernel has been, on this daemon, for problems of the same type and class of shape,
 * and how long the problem would take at this rate; null: it has computed none. */
static json_t *measured_json(const struct metrics_cell_total *cells, uint32_t count,
                             const struct operation *operation,
                             const struct operation_kernel *kernel, const void *problem)
{
    uint64_t lengths[METRICS_SHAPE_LENGTHS] = {0};
    uint8_t classes[METRICS_SHAPE_LENGTHS];
    _Static_assert((int)OPERATION_LENGTHS == (int)METRICS_SHAPE_LENGTHS, "all lengths count");
    operation->lengths(problem, lengths);
    metrics_shape_classes(lengths, classes);
    for (uint32_t i = 0; i < count; i++) {
        const struct metrics_cell_total *cell = &cells[i];
        if ((int)cell->task != (int)operation->number || strcmp(cell->kernel, kernel->name) != 0 ||
            cell->dtype != operation->dtype(problem) || cell->busy_ns == 0 || cell->flops <= 0 ||
            memcmp(cell->classes, classes, sizeof classes) != 0)
            continue;
        const double rate = cell->flops / ((double)cell->busy_ns * 1e-9);
        return json_pack("{s:I, s:f, s:f}", "works", (json_int_t)cell->works, "flops_per_second",
                         rate, "us", 1e6 * operation->flops(problem) / rate);
    }
    return json_null();
}

/* A kernel with the reason why it is or is not chosen, the tile and the estimate of a kernel that
 * chooses a tile, and what was measured of the kernel, which the object takes over. */
static json_t *choice_json(const struct device *device, const struct task *task,
                           const struct operation_kernel *chosen, const char *name,
                           json_t *measured)
{
    const struct gemm_device about = device_gemm(device);
    const struct operation_kernel *kernel = task->kernel;
    const bool takes = kernel->takes(&task->problem);
    struct operation_tile tile = {.us = 0};
    if (takes && operation_kernel_runs_on(task->operation, kernel, &about))
        device_tile(device, task, &tile);
    return json_pack(
        "{s:s, s:b, s:b, s:s, s:s?, s:o, s:o}", "name", kernel->name, "chosen", kernel == chosen,
        "takes", takes, "reason",
        operation_reason(task->operation, &about, name, &task->problem, chosen, kernel), "tile",
        tile.name[0] != '\0' ? tile.name : NULL, "estimated_us",
        tile.us > 0 && isfinite(tile.us) ? json_real(tile.us) : json_null(), "measured", measured);
}

/* The kernels of the backend in the order of choice. */
static json_t *choices_json(struct request *request, const struct explain_call *call,
                            const struct device *device, const union operation_problem *problem,
                            const struct operation_kernel *chosen)
{
    const struct operation *operation = call->operation->operation;
    struct task task = {.operation = operation, .problem = *problem};
    const struct operation_kernel *const *k =
        operation_kernels(operation, device_info(device)->backend);
    const char *name = call_request_field(&call->parameters, call->operation->kernel_at);
    struct metrics_cell_total *cells = calloc(METRICS_CELLS_MAX, sizeof *cells);
    json_t *list = json_array();
    bool whole = list != NULL && cells != NULL;
    /* The figures of kernels need the scope that their own path needs. */
    const bool sees = request->server->tokens == NULL || (request->scopes & SCOPE_METRICS) != 0;
    const uint32_t count = whole && sees ? metrics_cells(request->server->metrics, cells) : 0;
    for (; whole && *k != NULL; k++) {
        task.kernel = *k;
        whole = json_array_append_new(
                    list, choice_json(device, &task, chosen, name,
                                      measured_json(cells, count, operation, *k, problem))) == 0;
    }
    free(cells);
    return json_whole(list, whole);
}

/* The least time that the device's peaks allow, in microseconds; null: they are not known. */
static json_t *least_us_json(const struct device_info *info, enum gemmd_dtype dtype, double flops,
                             double bytes)
{
    if (!(info->peak_flops[dtype] > 0 && info->peak_memory_bytes > 0))
        return json_null();
    const double computing = flops / info->peak_flops[dtype];
    const double moving = bytes / info->peak_memory_bytes;
    return json_real(1e6 * (computing > moving ? computing : moving));
}

/* The devices, each with the estimated time of the requests that it has been given. */
static json_t *loads_json(const struct executors *executors)
{
    json_t *list = json_array();
    bool whole = list != NULL;
    for (uint32_t i = 0; i < executors->count; i++) {
        const struct executor *executor = &executors->list[i];
        const struct device_info *info = device_info(executor->device);
        const uint64_t ns = executor_ready_ns(executor, 0);
        whole &= json_array_append_new(
                     list,
                     json_pack("{s:s, s:i, s:I, s:o}", "backend", gemm_backend_name(info->backend),
                               "index", (int)info->index, "waiting",
                               (json_int_t)queue_state(executor->queue).waiting, "ready_us",
                               ns == UINT64_MAX ? json_null() : json_real((double)ns * 1e-3))) == 0;
    }
    return json_whole(list, whole);
}

/* Chooses the kernel for a request of these parameters. Returns an error with request->fault set if
 * the request would be refused. */
static enum gemmd_error choose(struct request *request, struct explain_call *call,
                               const struct gemm_device *device, union operation_problem *problem,
                               const struct operation_kernel **chosen)
{
    const struct call_operation *operation = call->operation;
    const struct call_residents none = {.tenant = request->tenant};
    struct fault *fault = &request->fault;
    operation->init(&call->parameters);
    enum gemmd_error code = request_parameters(request, take_parameter, call);
    if (code == GEMMD_OK)
        code = operation->settle(&call->parameters, &none, FORMAT_RAW, fault);
    if (code == GEMMD_OK)
        code = operation->problem(&call->parameters, &none, false, problem, fault);
    return code == GEMMD_OK
               ? operation_select(operation->operation, device,
                                  call_request_field(&call->parameters, operation->kernel_at),
                                  problem, chosen, fault)
               : code;
}

static json_t *lengths_json(const struct operation *operation, const void *problem)
{
    uint64_t lengths[OPERATION_LENGTHS] = {0};
    json_t *object = json_object();
    bool whole = object != NULL;
    operation->lengths(problem, lengths);
    for (int i = 0; i < OPERATION_LENGTHS; i++)
        whole &= json_object_set_new(object, operation->length_names[i],
                                     json_integer((json_int_t)lengths[i])) == 0;
    return json_whole(object, whole);
}

/* Describes how a request of these parameters would be computed. Nothing is computed, and the
 * limits do not count. Returns an error with request->fault set if the request would be refused;
 * else sets `*out`, to NULL if memory ran out. */
static enum gemmd_error explain(struct request *request, struct explain_call *call, json_t **out)
{
    struct services *services = services_of(request);
    const struct operation *operation = call->operation->operation;
    const struct device *first = services->executors.list[0].device;
    const struct gemm_device device = device_gemm(first);
    const struct operation_kernel *chosen = NULL;
    union operation_problem problem;
    const enum gemmd_error code = choose(request, call, &device, &problem, &chosen);
    if (code != GEMMD_OK)
        return code;
    const char *name = call_request_field(&call->parameters, call->operation->kernel_at);
    const enum gemmd_dtype dtype = operation->dtype(&problem);
    const double flops = operation->flops(&problem), bytes = operation->moved_bytes(&problem);
    *out = json_pack("{s:s, s:s, s:o, s:f, s:f, s:o, s:s, s:s, s:b, s:o, s:o}", "op",
                     operation->name, "dtype", dtype_name(dtype), "lengths",
                     lengths_json(operation, &problem), "flops", flops, "bytes", bytes, "least_us",
                     least_us_json(device_info(first), dtype, flops, bytes), "kernel", chosen->name,
                     "reason", operation_reason(operation, &device, name, &problem, chosen, chosen),
                     "shares_launch", (int)operation_is_small(operation, chosen, &problem),
                     "kernels", choices_json(request, call, first, &problem, chosen), "devices",
                     loads_json(&services->executors));
    return GEMMD_OK;
}

static void info_begin(struct request *request)
{
    struct services *services = services_of(request);
    const struct device *first = services->executors.list[0].device;
    struct explain_call call = {.request = request};
    json_t *explanation = NULL;
    enum gemmd_error code = request_parameters(request, find_explain, &call);
    if (code == GEMMD_OK && call.operation != NULL)
        code = explain(request, &call, &explanation);
    if (code != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    json_t *root = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s}, s:f, s:o, s:o, s:o, s:o, s:s, s:o, s:i}", "name", "gemmd",
        "version", GEMMD_VERSION, "build", "revision", services->revision, "library",
        gemm_backend_library(device_info(first)->backend), "libmicrohttpd", MHD_get_version(),
        "uptime_seconds", (double)(clock_now_ns() - services->started_ns) * 1e-9, "devices",
        devices_json(&services->executors), "touched", touched_json(services->toucher), "kernels",
        kernels_json(device_gemm(first)), "kernels_left_out", left_out_json(&services->executors),
        "select_version", gemm_select_version(), "limits", config_limits_to_json(request->config),
        "max_priority", (int)request->max_priority);
    if (call.operation != NULL)
        root = json_whole(root, json_object_set_new(root, "explanation", explanation) == 0);
    respond_text(request, 200, "application/json", info_text(root, JSON_INDENT(2)));
}

static void version_begin(struct request *request)
{
    json_t *root = json_pack("{s:s, s:s, s:s}", "name", "gemmd", "version", GEMMD_VERSION,
                             "revision", services_of(request)->revision);
    respond_text(request, 200, "application/json", info_text(root, JSON_COMPACT));
}

static void openapi_begin(struct request *request)
{
    static const char server[] = "\"url\": \"/\"";
    const char *base = request->config->base_path;
    if (base == NULL) {
        respond_static(request, 200, "application/json", openapi_json, openapi_json_length);
        return;
    }
    /* The base path replaces the slash. */
    const char *slash = strstr(openapi_json, server) + sizeof server - 3;
    const struct payload payload = {
        .parts = {{openapi_json, (size_t)(slash - openapi_json)},
                  {base, strlen(base)},
                  {slash + 1, (size_t)(openapi_json + openapi_json_length - slash - 1)}},
        .count = 3};
    struct headers headers;
    headers_clear(&headers);
    headers_add(&headers, "Content-Type", "application/json");
    respond(request, 200, &headers, &payload);
}

#define GET(at, needed, function)                                                                  \
    {                                                                                              \
        .path = at, .allow = "GET, HEAD", .op = METRICS_OP_OTHER, .scope = needed,                 \
        .begin = function                                                                          \
    }

const struct endpoint info_endpoints[] = {
    GET("/metrics", SCOPE_METRICS, metrics_begin),
    GET("/info", SCOPE_ANY, info_begin),
    GET("/version", SCOPE_ANY, version_begin),
    GET("/openapi.json", SCOPE_ANY, openapi_begin),
    {0},
};
