#include "server/observe/model_stats.h"

#include <time.h>

/* One launch, in the units of model_stats.launches. */
static const uint64_t LAUNCH = UINT64_C(1) << 32;

static void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void model_stats_success(struct model_stats *stats, const struct model_stages *stages)
{
    counter_add(&stats->success_count, 1);
    counter_add(&stats->success_ns, stages->total_ns);
    counter_add(&stats->queue_ns, stages->queue_ns);
    counter_add(&stats->input_ns, stages->input_ns);
    counter_add(&stats->infer_ns, stages->infer_ns);
    counter_add(&stats->output_ns, stages->output_ns);
    counter_add(&stats->launches,
                LAUNCH / (stages->launch_requests > 0 ? stages->launch_requests : 1));
    atomic_store_explicit(&stats->last_ms, now_ms(), memory_order_relaxed);
}

void model_stats_fail(struct model_stats *stats, uint64_t total_ns)
{
    counter_add(&stats->fail_count, 1);
    counter_add(&stats->fail_ns, total_ns);
}

uint64_t model_stats_executions(const struct model_stats *stats)
{
    const uint64_t launches = atomic_load_explicit(&stats->launches, memory_order_relaxed);
    const uint64_t whole = (launches + LAUNCH / 2) / LAUNCH;
    return whole == 0 && launches > 0 ? 1 : whole;
}
