#include "server/api/compute/call_log.h"

enum gemmd_dtype call_log_describe(const struct compute_call *call,
                                   const struct call_operation *operation, bool work_ended,
                                   struct log_access *entry)
{
    const struct work *work = &call->work;
    entry->kernel = work_kernel_name(work);
    if (work_ended) {
        entry->shared = work->launch_works;
        entry->queued_ns = work->queued_ns;
        entry->device_ns = work->started_ns;
        if (work->started_ns > work->queued_ns)
            entry->queue_ns = work->started_ns - work->queued_ns;
        entry->h2d_ns = work->h2d_ns;
        entry->kernel_ns = work->kernel_ns;
        entry->d2h_ns = work->d2h_ns;
    }
    if (call->operation != NULL)
        operation = call->operation;
    return operation->describe(&call->request, entry);
}
