#include "server/http/request_record.h"

#include "proto/dtype.h"
#include "server/daemon.h"
#include "server/http/inflater.h"
#include "server/http/request.h"

/* Whether such requests compute something, with all there is to say about it in `gemm`. */
static bool computes(enum metrics_op op)
{
    return op == METRICS_OP_GEMM || op == METRICS_OP_ATTENTION || op == METRICS_OP_INFER;
}

/* Inference can be either, and is a product until its model is known. */
static bool attends(const struct request *request)
{
    return request->endpoint->operation == &attention_operation ||
           request->call.operation == &attention_operation;
}

static void describe_product(const struct gemm_request *gemm, struct log_access *entry)
{
    entry->m = gemm->m;
    entry->n = gemm->n;
    entry->k = gemm->k;
    entry->batch = gemm->batch;
    entry->dtype = dtype_name(gemm->dtype);
}

static void describe_attention(const struct attention_request *attention, struct log_access *entry)
{
    entry->m = attention->sq;
    entry->n = attention->skv;
    entry->k = attention->d;
    entry->batch = attention->batch;
    entry->dtype = dtype_name(attention->dtype);
}

static void log_request(const struct request *request, bool work_ended, uint64_t now_ns)
{
    const struct work *work = &request->call.work;
    struct log_access entry = {
        .request_id = request->id,
        .peer = request->connection->peer,
        .method = request->method[0] == '\0' ? NULL : request->method,
        .path = request->path[0] == '\0' ? NULL : request->path,
        .error = request->fault.code == GEMMD_OK ? NULL : error_slug(request->fault.code),
        .status = request->status,
        .request_bytes = request->received_bytes,
        .response_bytes = request->response_bytes,
        .send_ns = request->sending_ns == 0 ? 0 : now_ns - request->sending_ns,
        .total_ns = now_ns - request->started_ns,
    };
    if (request->received_ns != 0)
        entry.receive_ns = request->received_ns - request->started_ns;
    if (request->endpoint != NULL && computes(request->endpoint->op)) {
        entry.op = request->endpoint->op == METRICS_OP_INFER ? "infer"
                                                             : request->endpoint->operation->name;
        if (attends(request))
            describe_attention(&request->call.attention, &entry);
        else
            describe_product(&request->call.gemm, &entry);
        entry.kernel = work_kernel_name(work);
    }
    if (entry.op != NULL && work_ended) {
        entry.shared = work->launch_works;
        entry.queue_ns = work->started_ns - work->queued_ns;
        entry.h2d_ns = work->h2d_ns;
        entry.kernel_ns = work->kernel_ns;
        entry.d2h_ns = work->d2h_ns;
    }
    log_access(request->daemon->log, &request->thread->log_buffer, &entry, now_ns);
}

/* The type of the operands; GEMMD_DTYPE_COUNT as long as it is not known. */
static enum gemmd_dtype dtype_of(const struct request *request, enum metrics_op op)
{
    const struct compute_call *call = &request->call;
    if (!computes(op))
        return GEMMD_DTYPE_COUNT;
    if (attends(request))
        return call->attention.heads != 0 ? call->attention.dtype : GEMMD_DTYPE_COUNT;
    return call->gemm.m != 0 ? call->gemm.dtype : GEMMD_DTYPE_COUNT;
}

static void count_request(const struct request *request, uint64_t now_ns)
{
    struct metrics_shard *shard = request->thread->shard;
    enum metrics_op op = request->endpoint == NULL ? METRICS_OP_OTHER : request->endpoint->op;
    metrics_request(shard, op, dtype_of(request, op), request->fault.code,
                    now_ns - request->started_ns, request->received_bytes, request->response_bytes);
    if (request->inflater != NULL)
        metrics_inflated(shard, inflater_total_bytes(request->inflater));
    if (!computes(op))
        return;
    if (request->received_ns != 0)
        metrics_stage(shard, METRICS_STAGE_RECEIVE, request->received_ns - request->started_ns);
    if (request->sending_ns != 0)
        metrics_stage(shard, METRICS_STAGE_SEND, now_ns - request->sending_ns);
}

void request_record(const struct request *request, bool work_ended, uint64_t now_ns)
{
    count_request(request, now_ns);
    if (request->daemon->config.access_log)
        log_request(request, work_ended, now_ns);
}
