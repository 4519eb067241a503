#include "server/device/work.h"

#include <stddef.h>

#include "kernels/attention_grouped.h"
#include "kernels/stacked.h"

bool work_is_copy(const struct work *work)
{
    return work->kernel == NULL && work->attention_kernel == NULL && work->copy_count > 0;
}

bool work_same_stack(const struct work *one, const struct work *other)
{
    if (one->attention_kernel != NULL || other->attention_kernel != NULL)
        return one->attention_kernel != NULL && other->attention_kernel != NULL &&
               attention_same_group(one->attention_kernel, &one->attention, other->attention_kernel,
                                    &other->attention);
    return gemm_same_stack(one->kernel, &one->problem, other->kernel, &other->problem);
}

uint32_t work_stack_rows(const struct work *work)
{
    return work->attention_kernel != NULL ? attention_group_units(&work->attention)
                                          : (uint32_t)work->problem.m;
}

const char *work_kernel_name(const struct work *work)
{
    if (work->attention_kernel != NULL)
        return work->attention_kernel->name;
    return work->kernel != NULL ? work->kernel->name : NULL;
}

double work_flops(const struct work *work)
{
    const struct gemm_problem *p = &work->problem;
    if (work->attention_kernel != NULL)
        return attention_flops(&work->attention);
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
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
