#include "server/api/compute/call_split.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/compute/compute_call.h"
#include "server/api/services.h"

/* A call is divided if the division is expected to save at least LEAST_GAIN of the time until the
 * call is done, and at least LEAST_GAIN_NS. */
static const double LEAST_GAIN = 0.2;
static const uint64_t LEAST_GAIN_NS = 200000;

/* A part is units `first` ... first + count - 1 of the call's problem (operation->units). */
struct call_part {
    struct work work; /* first, so that a work leads to its part */
    struct call_split *split;
    struct executor *executor;
    uint64_t first, count;
    /* Copies of the resident operands on the part's device. Empty if the part is computed by the
     * call's own device, which uses the operands of the call. */
    struct call_residents copies;
    bool has_device_memory;
    uint64_t charged_ns;
};

struct call_split {
    struct compute_call *call;
    uint32_t count;
    /* Parts that have not ended. call_split_push and call_split_cancel count as one more part while
     * they run, so that the call does not end while they use the parts. */
    atomic_uint left;
    atomic_bool started;
    _Atomic(struct call_part *) failed; /* the first part that failed; NULL: none has */
    struct call_part parts[];
};

struct call_host_bytes call_host_bytes(const struct compute_call *call)
{
    const struct task *task = &call->work.task;
    const struct device_span tensors = device_tensor_memory(call->executor->device);
    struct operation_part parts[OPERATION_PARTS_MAX];
    struct call_host_bytes bytes = {0, 0};
    if (call->client_memory.on_device)
        return bytes;
    const struct operation *operation = task->operation;
    if (!operation_parts(operation, &task->problem, parts))
        return bytes;
    for (uint32_t i = 0; i < operation->operands + operation->results; i++)
        if (!device_span_has(tensors, operation_pointer(operation, &task->problem, i)))
            *(parts[i].is_whole ? &bytes.whole : &bytes.divided) += (double)parts[i].bytes;
    return bytes;
}

/* The most units into which a call can be divided; 0 or 1: the call stays whole, because the
 * results of its parts would have other bits, or because a result is to lie in memory of one
 * device. */
static uint64_t units_of(const struct compute_call *call)
{
    const struct task *task = &call->work.task;
    if (call->residents.stored != NULL || call->client_memory.on_device ||
        call->work.shared_launch || task->operation->units == NULL)
        return 0;
    return task->operation->units(task->kernel, &task->problem);
}

static bool same_model(const struct device *one, const struct device *other)
{
    return strcmp(device_info(one)->name, device_info(other)->name) == 0;
}

/* Decides how many units each device computes. Returns false if the call stays whole. */
static bool divide(const struct compute_call *call, const struct services *services, uint64_t units,
                   uint64_t shares[])
{
    const struct executors *executors = &services->executors;
    const struct executor *own = call->executor;
    const struct task *task = &call->work.task;
    const enum gemmd_dtype dtype = task->operation->dtype(&task->problem);
    const bool is_too_large =
        call->work.device_bytes > arena_capacity_bytes(device_arena(own->device));
    const struct call_host_bytes bytes = call_host_bytes(call);
    const struct executor_load every = {.dtype = dtype, .host_bytes = (uint64_t)bytes.whole};
    const struct executor_load rest = {
        .dtype = dtype, .flops = call->work.flops, .host_bytes = (uint64_t)bytes.divided};
    uint64_t ready[DEVICES_MAX];
    uint32_t takes = 0;

    for (uint32_t i = 0; i < executors->count; i++) {
        const struct executor *executor = &executors->list[i];
        ready[i] = executor_ready_ns(
            executor, executor == own ? 0 : call_residents_missing(&call->residents, i));
        if (!same_model(own->device, executor->device))
            ready[i] = UINT64_MAX;
        if (ready[i] != UINT64_MAX)
            ready[i] += executor_estimate_ns(executor, &every);
    }
    const struct device_shares all = {.count = executors->count,
                                      .ready_ns = ready,
                                      .units = units,
                                      .unit_ns =
                                          (double)executor_estimate_ns(own, &rest) / (double)units};
    const uint64_t alone = device_shares_alone(&all), together = device_shares_divide(&all, shares);
    for (uint32_t i = 0; i < executors->count; i++)
        takes += shares[i] > 0;
    if (takes < 2 || shares[executors_number(executors, own)] == 0)
        return false;
    if (is_too_large)
        return true;
    return together < alone && alone - together >= LEAST_GAIN_NS &&
           (double)(alone - together) >= LEAST_GAIN * (double)alone;
}

/* Sets the problem of a part, with pointers into the operands and results of the call's work, and
 * to the resident operands of the part's device. */
static void point_part(const struct compute_call *call, struct call_part *part)
{
    const struct operation_range units = {part->first, part->count};
    struct task whole = call->work.task;
    call->operation->point_residents(&part->copies, &whole.problem);
    whole.operation->divide(&whole.problem, units, &part->work.task.problem);
}

/* Takes what the part needs on its device: copies of resident operands, and memory. */
static bool open_part(struct compute_call *call, struct services *services, struct call_part *part)
{
    const uint32_t device = executors_number(&services->executors, part->executor);
    const struct work *whole = &call->work;
    struct work *work = &part->work;
    struct arena *arena = device_arena(part->executor->device);
    struct fault fault; /* ignored: the call stays whole */

    *work = (struct work){
        .task.operation = whole->task.operation,
        .task.kernel = whole->task.kernel,
        .tenant = whole->tenant,
        .verify = whole->verify,
        .verify_seed = whole->verify_seed,
        .own_launch = true,
    };
    if (part->executor == call->executor) { /* the call has brought the operands to this device */
        work->first_copy_count = whole->first_copy_count;
        memcpy(work->first_copies, whole->first_copies, sizeof work->first_copies);
    } else {
        part->copies = (struct call_residents){.a = call->residents.a, .b = call->residents.b};
        if (call_residents_bring(&part->copies, services->tensors, device, work, &fault) !=
            GEMMD_OK)
            return false;
    }
    point_part(call, part);
    if (!work->task.kernel->takes(&work->task.problem) ||
        !device_plan(part->executor->device, work))
        return false;
    work->flops = work_flops(work);
    work->share_flops = work_share_flops(work);
    if (work->device_bytes > 0) {
        if (work->device_bytes > arena_capacity_bytes(arena) ||
            !arena_alloc(arena, work->device_bytes, &work->device_offset))
            return false;
        part->has_device_memory = true;
    }
    return true;
}

static void free_parts(struct call_split *split, struct services *services)
{
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_part *part = &split->parts[i];
        if (part->has_device_memory)
            arena_free(device_arena(part->executor->device), part->work.device_offset);
        executor_discharge(part->executor, part->charged_ns);
        /* A part that was withdrawn has not been launched. */
        call_residents_end_copies(&part->copies, services->tensors,
                                  part->work.status == GEMMD_OK && part->work.launch_works > 0);
    }
    free(split);
}

static bool open_parts(struct compute_call *call, struct services *services,
                       struct call_split *split, const uint64_t shares[])
{
    struct executors *executors = &services->executors;
    uint64_t first = 0;
    for (uint32_t i = 0; i < executors->count; i++) {
        if (shares[i] == 0)
            continue;
        struct call_part *part = &split->parts[split->count++];
        *part = (struct call_part){
            .split = split, .executor = &executors->list[i], .first = first, .count = shares[i]};
        first += shares[i];
        if (!open_part(call, services, part))
            return false;
    }
    return true;
}

static void charge_parts(const struct compute_call *call, struct call_split *split, uint64_t units)
{
    const struct task *task = &call->work.task;
    const struct call_host_bytes bytes = call_host_bytes(call);
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_part *part = &split->parts[i];
        const double share = (double)part->count / (double)units;
        const struct executor_load load = {.dtype = task->operation->dtype(&task->problem),
                                           .flops = part->work.flops,
                                           .host_bytes =
                                               (uint64_t)(bytes.whole + share * bytes.divided)};
        part->charged_ns = executor_estimate_ns(part->executor, &load);
        executor_charge(part->executor, part->charged_ns);
    }
}

void call_split_open(struct compute_call *call, struct services *services)
{
    const uint32_t devices = services->executors.count;
    uint64_t shares[DEVICES_MAX];
    const uint64_t units = units_of(call);
    if (units < 2 || !divide(call, services, units, shares))
        return;
    struct call_split *split = malloc(sizeof *split + devices * sizeof split->parts[0]);
    if (split == NULL)
        return;
    split->count = 0;
    call->split = split;
    if (!open_parts(call, services, split, shares)) {
        call->split = NULL;
        free_parts(split, services);
        return;
    }
    call->devices = split->count;
    charge_parts(call, split, units);
}

void call_split_point(struct compute_call *call)
{
    struct call_split *split = call->split;
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_part *part = &split->parts[i];
        point_part(call, part);
        part->work.priority = call->work.priority;
        part->work.deadline_ns = call->work.deadline_ns;
        part->work.bytes = call->work.bytes / split->count;
        part->work.outside_bytes = call->work.outside_bytes / split->count;
    }
}

static void note_latest(uint64_t *latest, uint64_t value)
{
    if (value > *latest)
        *latest = value;
}

/* Ends the call, whose parts have all ended. */
static void end_call(struct call_split *split)
{
    struct compute_call *call = split->call;
    struct work *work = &call->work;
    const struct call_part *failed = atomic_load(&split->failed);
    work->started_ns = UINT64_MAX;
    work->launch_works = 1;
    for (uint32_t i = 0; i < split->count; i++) {
        const struct work *part = &split->parts[i].work;
        if (part->started_ns != 0 && part->started_ns < work->started_ns)
            work->started_ns = part->started_ns;
        note_latest(&work->done_ns, part->done_ns);
        note_latest(&work->h2d_ns, part->h2d_ns);
        note_latest(&work->kernel_ns, part->kernel_ns);
        note_latest(&work->d2h_ns, part->d2h_ns);
        if (part->residual > work->residual)
            work->residual = part->residual;
    }
    if (work->started_ns == UINT64_MAX)
        work->started_ns = work->done_ns;
    if (failed != NULL) {
        work->status = failed->work.status;
        work->fault = failed->work.fault;
        work->residual = failed->work.residual;
        call->executor = failed->executor; /* which the log names */
    }
    work->done(work);
}

/* Runs on the dispatch thread of one of the devices. */
static void part_started(struct work *work)
{
    struct call_split *split = ((struct call_part *)work)->split;
    if (!atomic_exchange(&split->started, true) && split->call->work.started != NULL)
        split->call->work.started(&split->call->work);
}

/* Runs on the thread that ends the part. */
static void part_done(struct work *work)
{
    struct call_part *part = (struct call_part *)work, *none = NULL;
    struct call_split *split = part->split;
    if (work->status != GEMMD_OK && atomic_compare_exchange_strong(&split->failed, &none, part))
        for (uint32_t i = 0; i < split->count; i++)
            atomic_store(&split->parts[i].work.stop, true); /* nobody needs the other parts */
    if (atomic_fetch_sub(&split->left, 1) == 1)
        end_call(split);
}

void call_split_push(struct compute_call *call)
{
    struct call_split *split = call->split;
    const uint32_t count = split->count;
    split->call = call;
    atomic_init(&split->left, count + 1); /* one for this function */
    atomic_init(&split->started, false);
    atomic_init(&split->failed, NULL);
    for (uint32_t i = 0; i < count; i++) {
        split->parts[i].work.queued_ns = call->work.queued_ns;
        split->parts[i].work.started = part_started;
        split->parts[i].work.done = part_done;
    }
    for (uint32_t i = 0; i < count; i++)
        queue_push(split->parts[i].executor->queue, &split->parts[i].work);
    if (atomic_fetch_sub(&split->left, 1) == 1)
        end_call(split);
}

bool call_split_cancel(struct compute_call *call)
{
    struct call_split *split = call->split;
    uint32_t ended = 1; /* for this function */
    if (atomic_fetch_add(&split->left, 1) == 0) {
        atomic_fetch_sub(&split->left, 1); /* `done` is being called */
        return false;
    }
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_part *part = &split->parts[i], *none = NULL;
        if (!queue_cancel(part->executor->queue, &part->work))
            continue;
        part->work.status =
            fault_set(&part->work.fault, GEMMD_ERR_CANCELLED, NULL, "the request was withdrawn");
        (void)atomic_compare_exchange_strong(&split->failed, &none, part);
        ended++;
    }
    return atomic_fetch_sub(&split->left, ended) == ended;
}

void call_split_finish(struct compute_call *call, struct services *services)
{
    free_parts(call->split, services);
    call->split = NULL;
}
