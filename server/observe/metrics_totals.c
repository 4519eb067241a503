#include "server/observe/metrics_totals.h"

#include <string.h>

#include "proto/error.h"
#include "server/observe/metrics_families.h"

_Static_assert((int)METRICS_LATENCY_BUCKETS == (int)METRICS_TIME_BUCKETS + 1, "the same buckets");

static uint64_t count_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_requests(const struct metrics_shard *shard, struct metrics_totals *totals)
{
    for (int op = 0; op < METRICS_OP_COUNT; op++)
        for (int dtype = 0; dtype < METRICS_DTYPES; dtype++)
            for (int code = 0; code < GEMMD_ERR_COUNT; code++) {
                const uint64_t count = count_of(&shard->requests[op][dtype][code]);
                const int status = count == 0 ? 0 : error_status((enum gemmd_error)code);
                totals->requests[op] += count;
                totals->refused += status == 429 ? count : 0;
                totals->failed += status >= 500 ? count : 0;
                totals->client_errors += status >= 400 && status < 500 && status != 429 ? count : 0;
            }
}

void metrics_totals_read(const struct metrics *metrics, struct metrics_totals *totals)
{
    *totals = (struct metrics_totals){.flops = 0};
    for (uint32_t i = 0; i < metrics->count; i++) {
        const struct metrics_shard *shard = &metrics->shards[i];
        add_requests(shard, totals);
        for (int op = 0; op < METRICS_COMPUTING_OPS; op++) {
            for (int bucket = 0; bucket < METRICS_LATENCY_BUCKETS; bucket++)
                totals->latency[bucket] += count_of(&shard->duration[op].buckets[bucket]);
            for (int stage = 0; stage < METRICS_STAGE_COUNT; stage++)
                totals->stage_ns[op][stage] += count_of(&shard->op_stage_ns[op][stage]);
        }
        totals->busy_ns += count_of(&shard->busy_ns);
        totals->request_bytes += count_of(&shard->request_bytes);
        totals->response_bytes += count_of(&shard->response_bytes);
        totals->flops += atomic_load_explicit(&shard->flops, memory_order_relaxed);
    }
}

double metrics_latency_bound_s(uint32_t bucket)
{
    return bucket < METRICS_TIME_BUCKETS ? (double)metrics_time_bounds_ns[bucket] * 1e-9 : 0;
}

static void add_cell(struct metrics_cell_total *totals, uint32_t *count,
                     const struct metrics_cell *cell)
{
    uint32_t i = 0;
    while (i < *count && (totals[i].kernel != cell->kernel || totals[i].task != cell->task ||
                          totals[i].dtype != cell->dtype ||
                          memcmp(totals[i].classes, cell->classes, sizeof cell->classes) != 0))
        i++;
    if (i == METRICS_CELLS_MAX)
        return;
    if (i == *count) {
        totals[(*count)++] = (struct metrics_cell_total){
            .kernel = cell->kernel, .task = cell->task, .dtype = cell->dtype};
        memcpy(totals[i].classes, cell->classes, sizeof cell->classes);
    }
    totals[i].works += atomic_load_explicit(&cell->tally.works, memory_order_relaxed);
    totals[i].busy_ns += atomic_load_explicit(&cell->tally.busy_ns, memory_order_relaxed);
    totals[i].flops += atomic_load_explicit(&cell->tally.flops, memory_order_relaxed);
    totals[i].bytes += atomic_load_explicit(&cell->tally.bytes, memory_order_relaxed);
}

uint32_t metrics_cells(const struct metrics *metrics,
                       struct metrics_cell_total totals[METRICS_CELLS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < metrics->count; i++)
        for (uint32_t place = 0; place < METRICS_CELL_PLACES; place++)
            if (atomic_load_explicit(&metrics->shards[i].cells[place].used, memory_order_acquire))
                add_cell(totals, &count, &metrics->shards[i].cells[place]);
    return count;
}

uint64_t metrics_shards_sum(const struct metrics *metrics, size_t offset)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const char *shard = (const char *)&metrics->shards[i];
        sum += atomic_load_explicit((const _Atomic uint64_t *)(const void *)(shard + offset),
                                    memory_order_relaxed);
    }
    return sum;
}
