#include "server/scheduler/executor.h"

#include <stddef.h>

#include "server/device/device_copy.h"
#include "server/scheduler/warm_up.h"

/* The assumed speed of a device that does not report its own: operations a second of a CPU, and
 * bytes a second on the bus of a GPU. */
static const double UNKNOWN_FLOPS = 1e11, BUS_BYTES = 5e10;
/* The time of a copy from one device to another: a start-up time, and a time for each byte. The
 * rate is that of a device that does not report its own, in bytes a second. */
static const uint64_t LINK_NS = 20000;
static const double UNKNOWN_LINK_BYTES = 1e11;
/* The time that a request takes in addition to its computation and its copies. */
static const uint64_t REQUEST_NS = 2000;
static const double ESTIMATE_MAX_NS = 1e15;

enum gemmd_error executor_open(struct executor *executor, const struct executor_settings *settings,
                               struct fault *fault)
{
    executor->queue = queue_create(settings->admission, settings->tenants);
    if (executor->queue == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the queue");
    if (!device_copies_early(executor->device))
        return GEMMD_OK;
    executor->early_copy = early_copy_create(executor->device, executor->queue, settings->pool);
    if (executor->early_copy == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for early copies");
    return GEMMD_OK;
}

enum gemmd_error executor_start(struct executor *executor, const struct executor_settings *settings,
                                struct metrics_shard *shard, struct fault *fault)
{
    executor->shard = shard;
    executor->dispatch = dispatch_start(executor->device, executor->queue, executor->early_copy,
                                        shard, settings->max_launch_works, settings->busy_poll_us);
    if (executor->dispatch == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the dispatch thread did not start");
    dispatch_set_stall_limit(executor->dispatch, settings->stall_ns);
    return warm_up(executor->device, executor->queue, settings->pool, fault);
}

void executors_refuse(struct executors *executors)
{
    for (uint32_t i = 0; i < executors->count; i++)
        queue_close(executors->list[i].queue);
}

void executors_expire(struct executors *executors, uint64_t now_ns)
{
    for (uint32_t i = 0; i < executors->count; i++) {
        queue_expire(executors->list[i].queue, now_ns);
        dispatch_expire_probes(executors->list[i].dispatch, now_ns);
    }
}

void executors_look(struct executors *executors, uint64_t now_ns)
{
    for (uint32_t i = 0; i < executors->count; i++)
        dispatch_look(executors->list[i].dispatch, now_ns);
}

static void stop_queue(struct queue *queue)
{
    if (queue == NULL)
        return;
    queue_close(queue);
    queue_fail_all(queue, GEMMD_ERR_DRAINING, "the daemon is shutting down");
}

bool executors_stop(struct executors *executors, uint64_t patience_ns)
{
    bool idle = true;
    for (uint32_t i = 0; i < executors->count; i++)
        stop_queue(executors->list[i].queue);
    for (uint32_t i = 0; i < executors->count; i++) {
        struct executor *executor = &executors->list[i];
        if (dispatch_end(executor->dispatch, patience_ns))
            continue;
        idle = false;
        dispatch_leave(executor->dispatch);
    }
    return idle;
}

void executors_destroy(struct executors *executors)
{
    for (uint32_t i = 0; i < executors->count; i++) {
        dispatch_free(executors->list[i].dispatch);
        early_copy_destroy(executors->list[i].early_copy);
        queue_destroy(executors->list[i].queue);
    }
}

void executors_close_devices(struct executors *executors)
{
    for (uint32_t i = 0; i < executors->count; i++)
        device_close(executors->list[i].device);
    executors->count = 0;
}

bool executors_are_lost(const struct executors *executors)
{
    for (uint32_t i = 0; i < executors->count; i++)
        if (!device_lost(executors->list[i].device))
            return false;
    return true;
}

uint32_t executors_usable(const struct executors *executors)
{
    uint32_t usable = 0;
    for (uint32_t i = 0; i < executors->count; i++)
        usable += !device_lost(executors->list[i].device) &&
                  dispatch_stalled_ns(executors->list[i].dispatch) == 0;
    return usable;
}

enum gemmd_error executors_admit(struct executors *executors, uint32_t tenant, uint64_t bytes,
                                 struct admission_place *place, struct fault *fault)
{
    return queue_admit(executor_place(executors, NULL)->queue, tenant, bytes, place, fault);
}

uint64_t executor_estimate_ns(const struct executor *executor, const struct executor_load *load)
{
    const double peak = device_info(executor->device)->peak_flops[load->dtype];
    const double ns = 1e9 * (load->flops / (peak > 0 ? peak : UNKNOWN_FLOPS) +
                             (double)load->host_bytes / BUS_BYTES);
    return REQUEST_NS + (uint64_t)(ns < ESTIMATE_MAX_NS ? ns : ESTIMATE_MAX_NS);
}

/* The estimated time to copy `bytes` bytes from another device. */
static uint64_t link_ns(const struct executor *executor, uint64_t bytes)
{
    const double known = device_info(executor->device)->link_bytes;
    const double ns = 1e9 * (double)bytes / (known > 0 ? known : UNKNOWN_LINK_BYTES);
    if (bytes == 0)
        return 0;
    return LINK_NS + (uint64_t)(ns < ESTIMATE_MAX_NS ? ns : ESTIMATE_MAX_NS);
}

uint64_t executor_ready_ns(const struct executor *executor, uint64_t missing)
{
    if (device_lost(executor->device) || missing == UINT64_MAX)
        return UINT64_MAX;
    return atomic_load_explicit(&executor->charged_ns, memory_order_relaxed) +
           link_ns(executor, missing);
}

struct executor *executor_place(struct executors *executors, const uint64_t missing[])
{
    struct executor *best = NULL;
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t i = 0; i < executors->count; i++) {
        const uint64_t ns =
            executor_ready_ns(&executors->list[i], missing != NULL ? missing[i] : 0);
        if (ns >= best_ns)
            continue;
        best = &executors->list[i];
        best_ns = ns;
    }
    return best != NULL ? best : &executors->list[0];
}

void executor_charge(struct executor *executor, uint64_t ns)
{
    atomic_fetch_add_explicit(&executor->charged_ns, ns, memory_order_relaxed);
}

void executor_discharge(struct executor *executor, uint64_t ns)
{
    atomic_fetch_sub_explicit(&executor->charged_ns, ns, memory_order_relaxed);
}
