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

/* A subproblem is units `first` ... first + count - 1 of the call's problem (operation->units). */
struct call_subproblem {
    struct work work; /* first, so that a work leads to its subproblem */
    struct call_split *split;
    struct executor *executor;
    uint64_t first, count;
    /* Copies of the resident operands on the subproblem's device. Empty if the subproblem is
     * computed by the call's own device, which uses the operands of the call. */
    struct call_residents copies;
    bool has_device_memory;
    uint64_t charged_ns;
};

struct call_split {
    struct compute_call *call;
    uint32_t count;
    /* Subproblems that have not ended. call_split_push and call_split_cancel count as one more
     * subproblem while they run, so that the call does not end while they use the subproblems. */
    atomic_uint left;
    atomic_bool started;
    _Atomic(struct call_subproblem *) failed; /* the first subproblem that failed; NULL: none has */
    struct call_subproblem subproblems[];
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
 * results of its subproblems would have other bits, or because a result is to lie in memory of one
 * device. */
static uint64_t units_of(const struct compute_call *call)
{
    const struct task *task = &call->work.task;
    if (call->residents.stored != NULL || call->residents.sequence != NULL ||
        call->client_memory.on_device || call->work.shared_launch || task->operation->units == NULL)
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

/* Sets the problem of a subproblem, with pointers into the operands and results of the call's work,
 * and to the resident operands of the subproblem's device. */
static void point_subproblem(const struct compute_call *call, struct call_subproblem *sub)
{
    const struct operation_range units = {sub->first, sub->count};
    struct task whole = call->work.task;
    call->operation->point_residents(&sub->copies, &whole.problem);
    whole.operation->divide(&whole.problem, units, &sub->work.task.problem);
}

/* Takes what the subproblem needs on its device: copies of resident operands, and memory. */
static bool open_subproblem(struct compute_call *call, struct services *services,
                            struct call_subproblem *sub)
{
    const uint32_t device = executors_number(&services->executors, sub->executor);
    const struct work *whole = &call->work;
    struct work *work = &sub->work;
    struct arena *arena = device_arena(sub->executor->device);
    struct fault fault; /* ignored: the call stays whole */

    *work = (struct work){
        .task.operation = whole->task.operation,
        .task.kernel = whole->task.kernel,
        .tenant = whole->tenant,
        .verify = whole->verify,
        .verify_seed = whole->verify_seed,
        .own_launch = true,
    };
    if (sub->executor == call->executor) { /* the call has brought the operands to this device */
        work->first_copy_count = whole->first_copy_count;
        memcpy(work->first_copies, whole->first_copies, sizeof work->first_copies);
    } else {
        sub->copies = (struct call_residents){.a = call->residents.a, .b = call->residents.b};
        if (call_residents_bring(&sub->copies, services->tensors, device, work, &fault) != GEMMD_OK)
            return false;
    }
    point_subproblem(call, sub);
    if (!work->task.kernel->takes(&work->task.problem) || !device_plan(sub->executor->device, work))
        return false;
    work->flops = work_flops(work);
    work->share_flops = work_share_flops(work);
    if (work->device_bytes > 0) {
        if (work->device_bytes > arena_capacity_bytes(arena) ||
            !arena_alloc(arena, work->device_bytes, &work->device_offset))
            return false;
        sub->has_device_memory = true;
    }
    return true;
}

static void free_subproblems(struct call_split *split, struct services *services)
{
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_subproblem *sub = &split->subproblems[i];
        if (sub->has_device_memory)
            arena_free(device_arena(sub->executor->device), sub->work.device_offset);
        executor_discharge(sub->executor, sub->charged_ns);
        /* A subproblem that was withdrawn has not been launched. */
        call_residents_end_copies(&sub->copies, services->tensors,
                                  sub->work.status == GEMMD_OK && sub->work.launch_works > 0);
    }
    free(split);
}

static bool open_subproblems(struct compute_call *call, struct services *services,
                             struct call_split *split, const uint64_t shares[])
{
    struct executors *executors = &services->executors;
    uint64_t first = 0;
    for (uint32_t i = 0; i < executors->count; i++) {
        if (shares[i] == 0)
            continue;
        struct call_subproblem *sub = &split->subproblems[split->count++];
        *sub = (struct call_subproblem){
            .split = split, .executor = &executors->list[i], .first = first, .count = shares[i]};
        first += shares[i];
        if (!open_subproblem(call, services, sub))
            return false;
    }
    return true;
}

static void charge_subproblems(const struct compute_call *call, struct call_split *split,
                               uint64_t units)
{
    const struct task *task = &call->work.task;
    const struct call_host_bytes bytes = call_host_bytes(call);
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_subproblem *sub = &split->subproblems[i];
        const double share = (double)sub->count / (double)units;
        const struct executor_load load = {.dtype = task->operation->dtype(&task->problem),
                                           .flops = sub->work.flops,
                                           .host_bytes =
                                               (uint64_t)(bytes.whole + share * bytes.divided)};
        sub->charged_ns = executor_estimate_ns(sub->executor, &load);
        executor_charge(sub->executor, sub->charged_ns);
    }
}

void call_split_open(struct compute_call *call, struct services *services)
{
    const uint32_t devices = services->executors.count;
    uint64_t shares[DEVICES_MAX];
    const uint64_t units = units_of(call);
    if (units < 2 || !divide(call, services, units, shares))
        return;
    struct call_split *split = malloc(sizeof *split + devices * sizeof split->subproblems[0]);
    if (split == NULL)
        return;
    split->count = 0;
    call->split = split;
    if (!open_subproblems(call, services, split, shares)) {
        call->split = NULL;
        free_subproblems(split, services);
        return;
    }
    call->devices = split->count;
    charge_subproblems(call, split, units);
}

void call_split_point(struct compute_call *call)
{
    struct call_split *split = call->split;
    for (uint32_t i = 0; i < split->count; i++) {
        struct call_subproblem *sub = &split->subproblems[i];
        point_subproblem(call, sub);
        sub->work.priority = call->work.priority;
        sub->work.deadline_ns = call->work.deadline_ns;
        sub->work.bytes = call->work.bytes / split->count;
        sub->work.outside_bytes = call->work.outside_bytes / split->count;
    }
}

static void note_latest(uint64_t *latest, uint64_t value)
{
    if (value > *latest)
        *latest = value;
}

/* Ends the call, whose subproblems have all ended. */
static void end_call(struct call_split *split)
{
    struct compute_call *call = split->call;
    struct work *work = &call->work;
    const struct call_subproblem *failed = atomic_load(&split->failed);
    work->started_ns = UINT64_MAX;
    work->launch_works = 1;
    for (uint32_t i = 0; i < split->count; i++) {
        const struct work *sub = &split->subproblems[i].work;
        if (sub->started_ns != 0 && sub->started_ns < work->started_ns)
            work->started_ns = sub->started_ns;
        note_latest(&work->done_ns, sub->done_ns);
        note_latest(&work->h2d_ns, sub->h2d_ns);
        note_latest(&work->kernel_ns, sub->kernel_ns);
        note_latest(&work->d2h_ns, sub->d2h_ns);
        if (sub->residual > work->residual)
            work->residual = sub->residual;
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
static void subproblem_started(struct work *work)
{
    struct call_split *split = ((struct call_subproblem *)work)->split;
    if (!atomic_exchange(&split->started, true) && split->call->work.started != NULL)
        split->call->work.started(&split->call->work);
}

/* Runs on the thread that ends the subproblem. */
static void subproblem_done(struct work *work)
{
    struct call_subproblem *sub = (struct call_subproblem *)work, *none = NULL;
    struct call_split *split = sub->split;
    if (work->status != GEMMD_OK && atomic_compare_exchange_strong(&split->failed, &none, sub))
        for (uint32_t i = 0; i < split->count; i++)
            atomic_store(&split->subproblems[i].work.stop,
                         true); /* nobody needs the other subproblems */
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
        split->subproblems[i].work.queued_ns = call->work.queued_ns;
        split->subproblems[i].work.started = subproblem_started;
        split->subproblems[i].work.done = subproblem_done;
    }
    for (uint32_t i = 0; i < count; i++)
        queue_push(split->subproblems[i].executor->queue, &split->subproblems[i].work);
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
        struct call_subproblem *sub = &split->subproblems[i], *none = NULL;
        if (!queue_cancel(sub->executor->queue, &sub->work))
            continue;
        sub->work.status =
            fault_set(&sub->work.fault, GEMMD_ERR_CANCELLED, NULL, "the request was withdrawn");
        (void)atomic_compare_exchange_strong(&split->failed, &none, sub);
        ended++;
    }
    return atomic_fetch_sub(&split->left, ended) == ended;
}

void call_split_finish(struct compute_call *call, struct services *services)
{
    free_subproblems(call->split, services);
    call->split = NULL;
}
