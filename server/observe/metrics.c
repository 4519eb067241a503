#include "server/observe/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/error.h"
#include "server/observe/metrics_process.h"
#include "server/observe/metrics_shard.h"

/* From the time of a small product on an idle device (tens of microseconds) to the default
 * deadline, in steps of 2 to 2.5 where most requests are and in wider steps elsewhere. */
const uint64_t metrics_time_bounds_ns[METRICS_TIME_BUCKETS] = {
    10000,   25000,    50000,    100000,    250000,    500000,     1000000,     2500000,
    5000000, 10000000, 25000000, 100000000, 250000000, 1000000000, 10000000000, 60000000000,
};
const uint64_t metrics_launch_bounds[METRICS_LAUNCH_BUCKETS] = {1,  2,   4,   8,   16,  32,
                                                                64, 128, 256, 512, 1024};

static void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + value, memory_order_relaxed);
}

static void histogram_observe(struct metrics_histogram *histogram, const uint64_t *bounds,
                              uint32_t count, uint64_t value)
{
    uint32_t bucket = 0;
    while (bucket < count && value > bounds[bucket])
        bucket++;
    counter_add(&histogram->buckets[bucket], 1);
    counter_add(&histogram->sum, value);
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
    metrics->count = shards;
    metrics->identity = *identity;
    metrics->start_seconds = metrics_process_start_seconds();
    return metrics;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->shards);
    free(metrics);
}

struct metrics_shard *metrics_shard(struct metrics *metrics, uint32_t index)
{
    return &metrics->shards[index];
}

bool metrics_counts_dtype(enum metrics_op op, enum gemmd_dtype dtype)
{
    if (op == METRICS_OP_ATTENTION)
        return dtype == GEMMD_F32 || dtype == GEMMD_F16 || dtype == GEMMD_BF16;
    return op == METRICS_OP_GEMM && dtype < GEMMD_DTYPE_COUNT &&
           dtype_offers_out(dtype, dtype_default_out(dtype));
}

bool metrics_counts_dtype_of_status(int status)
{
    static const int statuses[] = {0, 200, 400, 413, 422, 429, 500, 503, 504, 507};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i] == status)
            return true;
    return false;
}

void metrics_request(struct metrics_shard *shard, enum metrics_op op, enum gemmd_dtype dtype,
                     enum gemmd_error code, uint64_t duration_ns, uint64_t request_bytes,
                     uint64_t response_bytes)
{
    bool known =
        metrics_counts_dtype(op, dtype) && metrics_counts_dtype_of_status(error_status(code));
    counter_add(&shard->requests[op][known ? dtype : GEMMD_DTYPE_COUNT][code], 1);
    histogram_observe(&shard->duration[op], metrics_time_bounds_ns, METRICS_TIME_BUCKETS,
                      duration_ns);
    counter_add(&shard->request_bytes, request_bytes);
    counter_add(&shard->response_bytes, response_bytes);
}

void metrics_stage(struct metrics_shard *shard, enum metrics_stage stage, uint64_t duration_ns)
{
    histogram_observe(&shard->stages[stage], metrics_time_bounds_ns, METRICS_TIME_BUCKETS,
                      duration_ns);
}

void metrics_launch(struct metrics_shard *shard, uint32_t requests, double flops, uint64_t busy_ns)
{
    histogram_observe(&shard->launch_requests, metrics_launch_bounds, METRICS_LAUNCH_BUCKETS,
                      requests);
    counter_add(&shard->busy_ns, busy_ns);
    double now = atomic_load_explicit(&shard->flops, memory_order_relaxed);
    atomic_store_explicit(&shard->flops, now + flops, memory_order_relaxed);
}

void metrics_inflated(struct metrics_shard *shard, uint64_t bytes)
{
    counter_add(&shard->inflated_bodies, 1);
    counter_add(&shard->inflated_bytes, bytes);
}

void metrics_connection_refused(struct metrics_shard *shard)
{
    counter_add(&shard->connections_refused, 1);
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
