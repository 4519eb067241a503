#include "server/scheduler/executor.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/known_answer.h"
#include "server/base/clock.h"
#include "server/device/device_copy.h"

/* The assumed speed of a device that does not report its own: floating-point operations a second of
 * a CPU, and bytes a second on the bus of a GPU. */
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

/* ---- the first products ---- */

/* How long a product may take before the device counts as lost. */
static const uint64_t PATIENCE_NS = 20000000000u;

struct first_product {
    struct work work; /* the first member: first_product_done casts it back */
    atomic_bool ended;
};

static void first_product_done(struct work *work)
{
    atomic_store(&((struct first_product *)work)->ended, true);
}

static bool wait_for_end(struct first_product *first)
{
    const uint64_t begun_ns = clock_now_ns();
    while (!atomic_load(&first->ended)) {
        if (clock_now_ns() - begun_ns > PATIENCE_NS)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    }
    return true;
}

/* Runs one product, whose kernel is chosen and whose operands are written. */
static enum gemmd_error warm_up_run(struct device *device, struct queue *queue,
                                    struct first_product *first, struct fault *fault)
{
    struct work *work = &first->work;
    struct arena *arena = device_arena(device);
    uint64_t row, column;
    struct reservation reservation = {.admission = NULL};
    if (!device_plan(device, work) || queue_admit(queue, 0, 0, &reservation, fault) != GEMMD_OK)
        return GEMMD_OK; /* the limits are so tight that no request will run either */
    const bool takes_memory = work->device_bytes > 0;
    if (takes_memory && !arena_alloc(arena, work->device_bytes, &work->device_offset)) {
        admission_give(&reservation);
        return GEMMD_OK;
    }
    work->done = first_product_done;
    work->uncounted = true;
    work->queued_ns = clock_now_ns();
    queue_push(queue, work);
    if (!wait_for_end(first))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the first product was not done within %" PRIu64 " s",
                         PATIENCE_NS / 1000000000u);
    if (takes_memory)
        arena_free(arena, work->device_offset);
    admission_give(&reservation);
    if (work->status != GEMMD_OK)
        return fault_set(fault, work->status, NULL, "the first product failed: %.200s",
                         work->fault.detail);
    if (!known_answer_check(&work->task.problem.gemm, &row, &column))
        return fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL,
                         "the first product has a wrong element at row %" PRIu64
                         ", column %" PRIu64,
                         row, column);
    return GEMMD_OK;
}

enum gemmd_error executor_warm_up(struct device *device, struct queue *queue, struct pool *pool,
                                  struct fault *fault)
{
    static const char *const kernels[] = {"auto", "naive"};
    const struct gemm_device target = device_gemm(device);
    enum gemmd_error code = GEMMD_OK;
    struct fault ignored;
    struct first_product *first = calloc(1, sizeof *first);
    struct pool_cache *memory = pool_cache_create(pool);
    void *block = memory == NULL ? NULL : pool_alloc(memory, KNOWN_ANSWER_BYTES, &ignored);
    for (int i = 0; i < 2 && first != NULL && block != NULL && code == GEMMD_OK; i++) {
        *first = (struct first_product){.work.task.operation = &operation_gemm};
        known_answer_init(&first->work.task.problem.gemm, GEMMD_F32, GEMMD_F32, false, false,
                          block);
        if (operation_select(&operation_gemm, &target, kernels[i], &first->work.task.problem.gemm,
                             &first->work.task.kernel, &ignored) == GEMMD_OK)
            code = warm_up_run(device, queue, first, fault);
    }
    if (first != NULL && first->work.done != NULL && !atomic_load(&first->ended))
        return code;
    if (block != NULL)
        pool_free(memory, block, KNOWN_ANSWER_BYTES);
    pool_cache_destroy(memory);
    free(first);
    return code;
}

/* ---- the executors ---- */

enum gemmd_error executor_start(struct executor *executor, const struct executor_settings *settings,
                                struct metrics_shard *shard, struct fault *fault)
{
    executor->shard = shard;
    executor->dispatch = dispatch_start(executor->device, executor->queue, executor->early_copy,
                                        shard, settings->max_launch_works, settings->busy_poll_us);
    if (executor->dispatch == NULL)
        return fault_set(fault, GEMMD_ERR_INTERNAL, NULL, "the dispatch thread did not start");
    dispatch_set_stall_limit(executor->dispatch, settings->stall_ns);
    return executor_warm_up(executor->device, executor->queue, settings->pool, fault);
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
                                 struct reservation *reservation, struct fault *fault)
{
    return queue_admit(executor_place(executors, NULL)->queue, tenant, bytes, reservation, fault);
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

/* ---- one computation on several devices ---- */

static bool takes_part(const struct device_shares *all, uint32_t i)
{
    return all->ready_ns[i] != UINT64_MAX;
}

/* The time at which all units are done if every device that is ready before that time takes part.
 * Each step leaves out the devices that would begin too late, until none is left out. */
static double time_of_all(const struct device_shares *all)
{
    double done = (double)UINT64_MAX;
    for (;;) {
        double ready = 0, devices = 0;
        for (uint32_t i = 0; i < all->count; i++) {
            if (!takes_part(all, i) || (double)all->ready_ns[i] >= done)
                continue;
            ready += (double)all->ready_ns[i];
            devices++;
        }
        if (devices == 0)
            return done;
        const double next = (ready + (double)all->units * all->unit_ns) / devices;
        if (next >= done)
            return done;
        done = next;
    }
}

uint64_t device_shares_divide(const struct device_shares *all, uint64_t shares[])
{
    const double done = time_of_all(all);
    uint64_t given = 0, last_ns = UINT64_MAX;
    double wanted = 0; /* by the devices so far, with fractions of a unit */
    for (uint32_t i = 0; i < all->count; i++) {
        shares[i] = 0;
        if (!takes_part(all, i) || (double)all->ready_ns[i] >= done)
            continue;
        wanted += (done - (double)all->ready_ns[i]) / all->unit_ns;
        uint64_t up_to = (uint64_t)(wanted + 0.5);
        if (up_to > all->units)
            up_to = all->units;
        shares[i] = up_to - given;
        given = up_to;
    }
    /* Rounding can leave a unit over. */
    for (uint32_t i = 0; i < all->count && given < all->units; i++)
        if (takes_part(all, i) && (double)all->ready_ns[i] < done) {
            shares[i] += all->units - given;
            given = all->units;
        }
    for (uint32_t i = 0; i < all->count; i++) {
        if (shares[i] == 0)
            continue;
        const uint64_t ns = all->ready_ns[i] + (uint64_t)((double)shares[i] * all->unit_ns);
        if (last_ns == UINT64_MAX || ns > last_ns)
            last_ns = ns;
    }
    return last_ns;
}

uint64_t device_shares_alone(const struct device_shares *all)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->ready_ns[i] < first)
            first = all->ready_ns[i];
    return first == UINT64_MAX ? first : first + (uint64_t)((double)all->units * all->unit_ns);
}
