#include "server/device/device.h"

#include <assert.h>

#include "proto/size.h"
#include "server/base/clock.h"
#include "server/device/device_copy.h"
#include "server/device/device_ops.h"

/* How long a launch computes before it pauses for others. */
static const uint64_t PAUSE_AFTER_NS = 2000000;

/* The memory of a work that has a launch of its own: the task's, then the check's. */
static bool plan_own_launch(const struct device *device, struct work *work)
{
    const struct task *task = &work->task;
    uint64_t check_bytes;
    if (!device->ops->task_bytes(device, task, &work->device_bytes))
        return false;
    return work->verify == WORK_UNVERIFIED ||
           (size_align(work->device_bytes, DEVICE_LAYOUT_ALIGNMENT, &work->check_offset) &&
            task->operation->check_bytes(&task->problem, &check_bytes) &&
            size_add(work->check_offset, check_bytes, &work->device_bytes));
}

/* Sets the stack or the group that the work may join. A work with copies is not stacked, since a
 * copy of a whole operand would hold up the other works of the stack. */
static void plan_together(const struct device *device, struct work *work)
{
    const struct task *task = &work->task;
    const struct operation *operation = task->operation;
    if (operation->stack != NULL && work->copy_count == 0) {
        work->join_rows =
            operation->stack->rows_max(task->kernel, &task->problem, device->tensors.start,
                                       device->tensors.bytes, device->stack_bytes);
        if (work->join_rows > 0)
            work->join_key = operation->stack->key(task->kernel, &task->problem);
    } else if (device->ops->groups &&
               operation_can_group(operation, task->kernel, &task->problem)) {
        work->join_key = operation_group_key(operation, task->kernel, &task->problem);
        work->join_rows = task->kernel->group_units;
    }
}

/* Whether the check of the work, if the work is to be verified, can follow a shared launch. */
static bool can_be_checked_small(const struct work *work)
{
    const struct operation *operation = work->task.operation;
    return work->verify == WORK_UNVERIFIED ||
           (operation->can_check_small != NULL && operation->can_check_small(&work->task.problem));
}

/* A small work is not stacked, since it already shares launches with works of any shape. If it is
 * to be verified and has no check that follows a shared launch, the work is stacked with others of
 * the same resident operand or has a launch of its own. The works of a group need copies in and
 * out, which only the streams for exclusive launches make. So do works with copies of a sequence,
 * however small. */
bool device_plan(const struct device *device, struct work *work)
{
    work->shared_launch = !work->own_launch && !work->copies_sequence &&
                          can_be_checked_small(work) && device_shares_launch(device, &work->task);
    work->join_key = 0;
    work->join_rows = 0;
    work->device_bytes = 0;
    if (work->shared_launch)
        return true;
    if (!work->own_launch)
        plan_together(device, work);
    if (!work_is_stacked(work))
        return plan_own_launch(device, work);
    work->shared_launch = device->shared_slots > 0;
    return true;
}

bool device_shares_launch(const struct device *device, const struct task *task)
{
    return device->ops->shares_launches &&
           operation_is_small(task->operation, task->kernel, &task->problem);
}

void device_enter(struct device *device)
{
    if (device->ops->enter != NULL)
        device->ops->enter(device);
}

uint32_t device_in_flight(const struct device *device)
{
    return atomic_load_explicit(&device->in_flight, memory_order_relaxed);
}

uint64_t device_progress(const struct device *device)
{
    return atomic_load_explicit(&device->progress, memory_order_relaxed);
}

void device_note_progress(struct device *device)
{
    atomic_fetch_add_explicit(&device->progress, 1, memory_order_relaxed);
}

static uint32_t count_streams(const struct device *device)
{
    return device->slots - device->shared_slots;
}

static uint32_t count_free_streams(const struct device *device)
{
    const uint32_t probes = device->running[device->slots] != NULL;
    const uint32_t between = device->running[device->slots + 1] != NULL;
    return count_streams(device) - (device->busy - device->busy_shared_slots - probes - between);
}

bool device_has_room(const struct device *device)
{
    return count_free_streams(device) > 0;
}

bool device_has_last_room(const struct device *device)
{
    return count_free_streams(device) == 1 && count_streams(device) >= DEVICE_KEEPING_STREAMS;
}

bool device_has_shared_room(const struct device *device)
{
    return device->busy_shared_slots < device->shared_slots;
}

bool device_computes_in_submit(const struct device *device)
{
    return device->ops->computes_in_submit;
}

static uint32_t count_works(const struct work *works)
{
    uint32_t count = 0;
    for (; works != NULL; works = works->next)
        count++;
    return count;
}

static void device_start(struct device *device, uint32_t slot, struct work *works, uint32_t count)
{
    uint64_t now_ns = clock_now_ns();
    if (slot != device->slots)
        device_note_progress(device);
    assert(device->running[slot] == NULL);
    device->running[slot] = works;
    device->order[device->busy++] = (uint8_t)slot;
    for (struct work *work = works; work != NULL; work = work->next) {
        work->status = GEMMD_OK;
        work->launch_works = count;
        work->h2d_ns = work->kernel_ns = work->d2h_ns = 0;
        work->started_ns = now_ns;
    }
    if (!device_lost(device))
        device->ops->submit(device, slot, works);
}

static bool is_shared_slot(const struct device *device, uint32_t slot)
{
    return slot < device->slots && slot >= device->slots - device->shared_slots;
}

/* The slots for shared launches come after those for other launches. */
void device_submit(struct device *device, struct work *works)
{
    uint32_t slot = works->shared_launch ? device->slots - device->shared_slots : 0;
    const uint32_t count = count_works(works);
    assert(works->shared_launch ? device_has_shared_room(device) : device_has_room(device));
    assert(count == 1 || works->shared_launch || works->join_key != 0);
    assert(count <= DEVICE_LAUNCH_WORKS_MAX);
    while (device->running[slot] != NULL)
        slot++;
    device->busy_shared_slots += works->shared_launch;
    atomic_fetch_add_explicit(&device->in_flight, count, memory_order_relaxed);
    device_start(device, slot, works, count);
}

void device_on_pause(struct device *device, void (*pause)(void *argument, uint64_t ran_ns),
                     void *argument)
{
    device->pause = pause;
    device->pause_argument = argument;
}

void device_pause(struct device *device, const struct work *works, struct device_pauses *pauses,
                  uint64_t now_ns)
{
    const uint64_t ran_ns = now_ns - pauses->resumed_ns;
    if (device->pause == NULL || ran_ns < PAUSE_AFTER_NS)
        return;
    device->paused = works;
    device->pause(device->pause_argument, ran_ns);
    device->paused = NULL;
    pauses->resumed_ns = clock_now_ns();
    pauses->paused_ns += pauses->resumed_ns - now_ns;
}

void device_submit_between(struct device *device, struct work *works)
{
    const uint32_t count = count_works(works);
    assert(!works->shared_launch && count <= DEVICE_LAUNCH_WORKS_MAX);
    atomic_fetch_add_explicit(&device->in_flight, count, memory_order_relaxed);
    device_start(device, device->slots + 1, works, count);
}

void device_submit_probe(struct device *device, struct work *work)
{
    device_start(device, device->slots, work, 1);
}

/* Whether the launch of a slot has ended. All launches of a lost device have ended with an error: a
 * lost device does not read or write memory any more, and no result can be trusted. */
static bool has_ended(struct device *device, uint32_t slot)
{
    struct work *works = device->running[slot];
    if (works == device->paused)
        return false;
    if (!device_lost(device) && !device->ops->poll(device, slot, works))
        return false;
    for (struct work *work = works; device_lost(device) && work != NULL; work = work->next)
        work->status = fault_set(&work->fault, GEMMD_ERR_DEVICE_LOST, NULL,
                                 "the device is lost: %s", device->reason);
    return true;
}

/* Frees the slot of entry `i` of device->order. Returns the slot's works, which have ended. */
static struct work *device_free_slot(struct device *device, uint32_t i)
{
    const uint32_t slot = device->order[i];
    struct work *works = device->running[slot];
    device->running[slot] = NULL;
    device->busy--;
    device->busy_shared_slots -= is_shared_slot(device, slot);
    for (uint32_t j = i; j < device->busy; j++)
        device->order[j] = device->order[j + 1];
    if (slot != device->slots) { /* not the probe's slot */
        device_note_progress(device);
        atomic_fetch_sub_explicit(&device->in_flight, works->launch_works, memory_order_relaxed);
    }
    return works;
}

struct work *device_poll(struct device *device)
{
    for (uint32_t i = 0; i < device->busy; i++) {
        if (!has_ended(device, device->order[i]))
            continue;
        struct work *works = device_free_slot(device, i);
        const uint64_t now_ns = clock_now_ns();
        for (struct work *work = works; work != NULL; work = work->next) {
            work->done_ns = now_ns;
            if (work->copy_in != NULL)
                device_end_copies(device, work->copy_in);
        }
        return works;
    }
    return NULL;
}
