#include "server/work/work.h"

bool work_is_copy(const struct work *work)
{
    return work->kernel == NULL && work->copy_count > 0;
}

void work_end(struct work *work)
{
    if (work->status == GEMMD_OK && work->deadline_ns != 0 && work->done_ns > work->deadline_ns)
        work->status = fault_set(&work->fault, GEMMD_ERR_DEADLINE, NULL,
                                 "the deadline passed while the product was computed");
    work->done(work);
}
