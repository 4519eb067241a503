#include "server/work/work.h"

#include <stddef.h>

bool work_is_copy(const struct work *work)
{
    return work->kernel == NULL && work->attends == NULL && work->copy_count > 0;
}

const char *work_kernel_name(const struct work *work)
{
    if (work->attends != NULL)
        return work->attends->name;
    return work->kernel != NULL ? work->kernel->name : NULL;
}

double work_flops(const struct work *work)
{
    const struct gemm_problem *p = &work->problem;
    if (work->attends != NULL)
        return attention_flops(&work->attention);
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
}

void work_end(struct work *work)
{
    if (work->status == GEMMD_OK && work->deadline_ns != 0 && work->done_ns > work->deadline_ns)
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the result was computed");
    work->done(work);
}
