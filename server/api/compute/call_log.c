#include "server/api/compute/call_log.h"

#include "proto/dtype.h"

static enum gemmd_dtype describe_product(const struct gemm_request *gemm, struct log_access *entry)
{
    entry->m = gemm->m;
    entry->n = gemm->n;
    entry->k = gemm->k;
    entry->batch = gemm->batch;
    entry->dtype = dtype_name(gemm->dtype);
    return gemm->m != 0 ? gemm->dtype : GEMMD_DTYPE_COUNT;
}

static enum gemmd_dtype describe_attention(const struct attention_request *attention,
                                           struct log_access *entry)
{
    entry->m = attention->sq;
    entry->n = attention->skv;
    entry->k = attention->d;
    entry->batch = attention->batch;
    entry->heads = attention->heads;
    entry->kv_heads = attention->kv_heads;
    entry->sq = attention->sq;
    entry->skv = attention->skv;
    entry->d = attention->d;
    entry->dv = attention->dv;
    entry->dtype = dtype_name(attention->dtype);
    return attention->heads != 0 ? attention->dtype : GEMMD_DTYPE_COUNT;
}

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
    return operation == &attention_operation ? describe_attention(&call->attention, entry)
                                             : describe_product(&call->gemm, entry);
}
