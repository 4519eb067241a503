#include "server/device/work.h"

#include <stddef.h>

bool work_is_copy(const struct work *work)
{
    return work->task.kernel == NULL && (work->copy_count > 0 || work->sequence_copy_count > 0);
}

bool work_can_join(const struct work *one, const struct work *other)
{
    const struct task *a = &one->task, *b = &other->task;
    if (a->operation != b->operation)
        return false;
    return a->operation->stack != NULL
               ? a->operation->stack->same(a->kernel, &a->problem, b->kernel, &b->problem)
               : operation_same_group(a->operation, a->kernel, &a->problem, b->kernel, &b->problem);
}

uint32_t work_join_rows(const struct work *work)
{
    const struct operation *operation = work->task.operation;
    return operation->stack != NULL ? operation->stack->rows(&work->task.problem)
                                    : operation_group_units(operation, &work->task.problem);
}

const char *work_kernel_name(const struct work *work)
{
    return work->task.kernel != NULL ? work->task.kernel->name : NULL;
}

double work_flops(const struct work *work)
{
    return work->task.operation->flops(&work->task.problem);
}

double work_share_flops(const struct work *work)
{
    const struct operation *operation = work->task.operation;
    const uint32_t factor = work->task.kernel->share_factor;
    const double flops = operation->share_flops != NULL
                             ? operation->share_flops(&work->task.problem)
                             : operation->flops(&work->task.problem);
    return flops * (factor > 0 ? factor : 1);
}

bool work_is_useless(const struct work *work, uint64_t now_ns)
{
    return (work->deadline_ns != 0 && work->deadline_ns <= now_ns) ||
           atomic_load_explicit(&work->stop, memory_order_relaxed);
}

void work_set_stopped(struct work *work)
{
    if (atomic_load_explicit(&work->stop, memory_order_relaxed))
        work->status = fault_set(&work->fault, GEMMD_ERR_CANCELLED, NULL,
                                 "the request was withdrawn while the result was computed");
    else
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the device worked on the request");
}

void work_end(struct work *work)
{
    if (work->status == GEMMD_OK && work->deadline_ns != 0 && work->done_ns > work->deadline_ns)
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the result was computed");
    work->done(work);
}
