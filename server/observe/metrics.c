#include "server/observe/metrics.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/operations.h"
#include "proto/dtype.h"
#include "proto/error.h"
#include "server/base/trace_context.h"
#include "server/observe/metrics_shard.h"

/* From the time of a small product on an idle device (tens of microseconds) to the default
 * deadline, in steps of at most 2.5, so that a quantile is known to a factor of 2.5. */
const uint64_t metrics_time_bounds_ns[METRICS_TIME_BUCKETS] = {
    10000,     25000,      50000,      100000,     250000,      500000,      1000000,
    2500000,   5000000,    10000000,   25000000,   50000000,    100000000,   250000000,
    500000000, 1000000000, 2500000000, 5000000000, 10000000000, 25000000000, 60000000000,
};
/* The same range in wider steps: nine histograms have these bounds. */
const uint64_t metrics_stage_bounds_ns[METRICS_STAGE_BUCKETS] = {
    10000,     30000,     100000,     300000,     1000000,     3000000,     10000000,    30000000,
    100000000, 300000000, 1000000000, 3000000000, 10000000000, 30000000000, 60000000000,
};
const uint64_t metrics_launch_bounds[METRICS_LAUNCH_BUCKETS] = {1,  2,   4,   8,   16,  32,
                                                                64, 128, 256, 512, 1024};

static void histogram_observe(struct metrics_histogram *histogram, const uint64_t *bounds,
                              uint32_t count, uint64_t value)
{
    uint32_t bucket = 0;
    while (bucket < count && value > bounds[bucket])
        bucket++;
    counter_add(&histogram->buckets[bucket], 1);
    counter_add(&histogram->sum, value);
}

/* Finds out which requests are counted by dtype. */
static void set_counted(struct metrics *metrics)
{
    static const int statuses[] = {0, 200, 400, 413, 422, 429, 500, 503, 504, 507};
    for (int op = 0; op < METRICS_COMPUTING_OPS; op++) {
        const struct operation *operation =
            op == METRICS_OP_INFER ? &operation_gemm : operation_table[op];
        union operation_problem problem;
        for (int in = 0; in < GEMMD_DTYPE_COUNT; in++)
            for (int out = 0; out < GEMMD_DTYPE_COUNT; out++)
                metrics->counts_dtype[op][in] |=
                    operation->example((enum gemmd_dtype)in, (enum gemmd_dtype)out, &problem);
    }
    for (int code = 0; code < GEMMD_ERR_COUNT; code++)
        for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
            metrics->counts_dtype_of_code[code] |=
                statuses[i] == error_status((enum gemmd_error)code);
}

struct metrics *metrics_create(uint32_t shards, const struct metrics_identity *identity)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics)
        return NULL;
    metrics->shards =
        aligned_alloc(_Alignof(struct metrics_shard), shards * sizeof(struct metrics_shard));
    if (!metrics->shards) {
        free(metrics);
        return NULL;
    }
    memset(metrics->shards, 0, shards * sizeof(struct metrics_shard));
    for (uint32_t i = 0; i < shards; i++)
        metrics->shards[i].metrics = metrics;
    if (pthread_mutex_init(&metrics->exemplars_lock, NULL) != 0)
        goto no_exemplars_lock;
    if (pthread_mutex_init(&metrics->shown_lock, NULL) != 0)
        goto no_shown_lock;
    metrics->count = shards;
    metrics->identity = *identity;
    metrics->start_seconds = metrics_process_start_seconds();
    set_counted(metrics);
    return metrics;

no_shown_lock:
    pthread_mutex_destroy(&metrics->exemplars_lock);
no_exemplars_lock:
    free(metrics->shards);
    free(metrics);
    return NULL;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_destroy(&metrics->shown_lock);
    pthread_mutex_destroy(&metrics->exemplars_lock);
    free(metrics->tenant_errors);
    free(metrics->tenant_work);
    free(metrics->shards);
    free(metrics);
}

bool metrics_count_tenants(struct metrics *metrics, uint32_t tenants)
{
    metrics->tenant_errors =
        calloc((size_t)tenants * GEMMD_ERR_COUNT, sizeof *metrics->tenant_errors);
    metrics->tenant_work = calloc((size_t)tenants * metrics->count, sizeof *metrics->tenant_work);
    if (metrics->tenant_errors == NULL || metrics->tenant_work == NULL)
        return false; /* metrics_destroy frees the other */
    metrics->tenant_count = tenants;
    for (uint32_t i = 0; i < metrics->count; i++) {
        metrics->shards[i].tenant_work = metrics->tenant_work + (size_t)i * tenants;
        metrics->shards[i].tenant_count = tenants;
    }
    return true;
}

struct metrics_shard *metrics_shard(struct metrics *metrics, uint32_t index)
{
    return &metrics->shards[index];
}

/* ---- requests ---- */

void metrics_stage(struct metrics_shard *shard, enum metrics_stage stage, uint64_t duration_ns)
{
    histogram_observe(&shard->stages[stage], metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS,
                      duration_ns);
}

static void set_exemplar(struct metrics_exemplar *buckets, const uint64_t *bounds, uint32_t count,
                         uint64_t duration_ns, const struct trace_context *trace, double seconds)
{
    uint32_t bucket = 0;
    while (bucket < count && duration_ns > bounds[bucket])
        bucket++;
    struct metrics_exemplar *exemplar = &buckets[bucket];
    memcpy(exemplar->trace_id, trace->trace_id, sizeof exemplar->trace_id);
    memcpy(exemplar->span_id, trace->span_id, sizeof exemplar->span_id);
    exemplar->duration_ns = duration_ns;
    exemplar->time_seconds = seconds;
}

/* Makes the request an exemplar of its duration and of its stages. Does not wait for a scrape. */
static void set_exemplars(struct metrics *metrics, const struct metrics_request *request)
{
    struct timespec now;
    if (pthread_mutex_trylock(&metrics->exemplars_lock) != 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    const double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    set_exemplar(metrics->exemplars[request->op], metrics_time_bounds_ns, METRICS_TIME_BUCKETS,
                 request->duration_ns, request->trace, seconds);
    for (size_t stage = 0; stage < METRICS_STAGE_COUNT; stage++)
        if (request->stages_ns[stage] > 0)
            set_exemplar(metrics->stage_exemplars[stage], metrics_stage_bounds_ns,
                         METRICS_STAGE_BUCKETS, request->stages_ns[stage], request->trace, seconds);
    pthread_mutex_unlock(&metrics->exemplars_lock);
}

void metrics_request(struct metrics_shard *shard, const struct metrics_request *request)
{
    const bool has_dtype = shard->metrics->counts_dtype[request->op][request->dtype] &&
                           shard->metrics->counts_dtype_of_code[request->code];
    const enum gemmd_dtype dtype = has_dtype ? request->dtype : GEMMD_DTYPE_COUNT;
    counter_add(&shard->requests[request->op][dtype][request->code], 1);
    histogram_observe(&shard->duration[request->op], metrics_time_bounds_ns, METRICS_TIME_BUCKETS,
                      request->duration_ns);
    counter_add(&shard->request_bytes, request->request_bytes);
    counter_add(&shard->response_bytes, request->response_bytes);
    counter_add(&shard->inflated_bodies, request->was_compressed);
    counter_add(&shard->inflated_bytes, request->inflated_bytes);
    if (request->tenant < shard->tenant_count) {
        counter_add(&shard->tenant_work[request->tenant].requests, 1);
        if (request->code != GEMMD_OK)
            atomic_fetch_add_explicit(
                &shard->metrics->tenant_errors[(size_t)request->tenant * GEMMD_ERR_COUNT +
                                               (size_t)request->code],
                1, memory_order_relaxed);
    }
    /* The device's thread has observed the other stages. */
    if (request->stages_ns[METRICS_STAGE_RECEIVE] > 0)
        metrics_stage(shard, METRICS_STAGE_RECEIVE, request->stages_ns[METRICS_STAGE_RECEIVE]);
    if (request->stages_ns[METRICS_STAGE_SEND] > 0)
        metrics_stage(shard, METRICS_STAGE_SEND, request->stages_ns[METRICS_STAGE_SEND]);
    if (request->op < (enum metrics_op)METRICS_COMPUTING_OPS)
        for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
            counter_add(&shard->op_stage_ns[request->op][stage], request->stages_ns[stage]);
    if (request->trace != NULL)
        set_exemplars(shard->metrics, request);
}

/* ---- works ---- */

const uint64_t metrics_shape_bounds[METRICS_SHAPE_BOUNDS] = {16, 128, 1024, 8192};

_Static_assert((METRICS_CELL_PLACES & (METRICS_CELL_PLACES - 1)) == 0, "places are masked");
_Static_assert((int)METRICS_CELL_PLACES > (int)METRICS_CELLS_MAX, "a search finds an empty place");

static void add_to_tally(struct metrics_tally *tally, const struct metrics_work *work)
{
    counter_add(&tally->works, 1);
    counter_add(&tally->busy_ns, work->busy_ns);
    counter_add_real(&tally->flops, work->flops);
    counter_add_real(&tally->bytes, work->bytes);
}

static void count_kernel(struct metrics_shard *shard, const struct metrics_work *work)
{
    const uint32_t count = atomic_load_explicit(&shard->kernel_count, memory_order_relaxed);
    uint32_t i = 0;
    while (i < count &&
           (shard->kernels[i].name != work->kernel || shard->kernels[i].dtype != work->dtype ||
            shard->kernels[i].task != work->task))
        i++;
    if (i > METRICS_KERNELS_MAX)
        i = METRICS_KERNELS_MAX;
    struct metrics_kernel *kernel = &shard->kernels[i];
    if (i == count) {
        kernel->name = work->kernel;
        kernel->dtype = work->dtype;
        kernel->task = work->task;
    }
    add_to_tally(&kernel->tally, work);
    if (i == count)
        atomic_store_explicit(&shard->kernel_count, count + 1, memory_order_release);
}

void metrics_shape_classes(const uint64_t lengths[METRICS_SHAPE_LENGTHS],
                           uint8_t classes[METRICS_SHAPE_LENGTHS])
{
    for (int i = 0; i < METRICS_SHAPE_LENGTHS; i++) {
        classes[i] = 0;
        while (classes[i] < METRICS_SHAPE_BOUNDS && lengths[i] > metrics_shape_bounds[classes[i]])
            classes[i]++;
    }
}

static bool is_of(const struct metrics_cell *cell, const struct metrics_work *work,
                  const uint8_t *classes)
{
    return cell->kernel == work->kernel && cell->task == work->task && cell->dtype == work->dtype &&
           memcmp(cell->classes, classes, METRICS_SHAPE_LENGTHS) == 0;
}

/* Counts a work in the cell of its kernel and shape. */
static void count_cell(struct metrics_shard *shard, const struct metrics_work *work)
{
    uint8_t classes[METRICS_SHAPE_LENGTHS];
    uint64_t key = (uint64_t)(uintptr_t)work->kernel;
    key = key * 31 + (uint64_t)work->task * 64 + (uint64_t)work->dtype;
    metrics_shape_classes(work->lengths, classes);
    for (int i = 0; i < METRICS_SHAPE_LENGTHS; i++)
        key = key * 8 + classes[i];
    uint32_t place =
        (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (METRICS_CELL_PLACES - 1);
    while (atomic_load_explicit(&shard->cells[place].used, memory_order_relaxed) &&
           !is_of(&shard->cells[place], work, classes))
        place = (place + 1) & (METRICS_CELL_PLACES - 1);
    struct metrics_cell *cell = &shard->cells[place];
    const bool is_new = !atomic_load_explicit(&cell->used, memory_order_relaxed);
    if (is_new) {
        if (shard->cell_count == METRICS_CELLS_MAX)
            return;
        shard->cell_count++;
        cell->kernel = work->kernel;
        cell->task = work->task;
        cell->dtype = work->dtype;
        memcpy(cell->classes, classes, sizeof cell->classes);
    }
    add_to_tally(&cell->tally, work);
    if (is_new)
        atomic_store_explicit(&cell->used, true, memory_order_release);
}

void metrics_work(struct metrics_shard *shard, const struct metrics_work *work)
{
    if (work->tenant < shard->tenant_count)
        counter_add(&shard->tenant_work[work->tenant].device_ns, work->busy_ns);
    count_kernel(shard, work);
    count_cell(shard, work);
}

void metrics_launch(struct metrics_shard *shard, uint32_t requests, double flops, uint64_t busy_ns)
{
    histogram_observe(&shard->launch_requests, metrics_launch_bounds, METRICS_LAUNCH_BUCKETS,
                      requests);
    counter_add(&shard->busy_ns, busy_ns);
    counter_add_real(&shard->flops, flops);
}

void metrics_queue_wait(struct metrics_shard *shard, enum metrics_kind task, uint64_t duration_ns)
{
    metrics_stage(shard, METRICS_STAGE_QUEUE, duration_ns);
    histogram_observe(&shard->queue_wait[task], metrics_stage_bounds_ns, METRICS_STAGE_BUCKETS,
                      duration_ns);
}

/* ---- other counts ---- */

void metrics_connection_refused(struct metrics_shard *shard)
{
    counter_add(&shard->connections_refused, 1);
}

void metrics_handshake(struct metrics_shard *shard, bool succeeded)
{
    counter_add(succeeded ? &shard->handshakes : &shard->failed_handshakes, 1);
}

void metrics_client_gone(struct metrics_shard *shard)
{
    counter_add(&shard->client_gone, 1);
}

void metrics_device_error(struct metrics_shard *shard)
{
    counter_add(&shard->device_errors, 1);
}

void metrics_early_copy(struct metrics_shard *shard, uint64_t bytes)
{
    counter_add(&shard->early_copy_bytes, bytes);
}

void metrics_link(struct metrics_shard *shard, uint64_t bytes)
{
    counter_add(&shard->link_bytes, bytes);
}

void metrics_device_read(const struct metrics_shard *shard, struct metrics_device *device)
{
    device->launches = 0;
    for (uint32_t i = 0; i <= METRICS_LAUNCH_BUCKETS; i++)
        device->launches +=
            atomic_load_explicit(&shard->launch_requests.buckets[i], memory_order_relaxed);
    device->busy_ns = atomic_load_explicit(&shard->busy_ns, memory_order_relaxed);
    device->link_bytes = atomic_load_explicit(&shard->link_bytes, memory_order_relaxed);
    device->flops = atomic_load_explicit(&shard->flops, memory_order_relaxed);
}
