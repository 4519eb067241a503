#include "server/http/request_record.h"

#include "proto/dtype.h"
#include "server/daemon.h"
#include "server/http/request.h"

/* Whether such requests are products, with all there is to say about one in `gemm`. */
static bool computes(enum metrics_op op)
{
    return op == METRICS_OP_GEMM || op == METRICS_OP_INFER;
}

static void log_request(const struct request *request, bool work_ended, uint64_t now_ns)
{
    const struct work *work = &request->gemm.work;
    const struct gemm_request *gemm = &request->gemm.request;
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
        entry.op = request->endpoint->op == METRICS_OP_GEMM ? "gemm" : "infer";
        entry.m = gemm->m;
        entry.n = gemm->n;
        entry.k = gemm->k;
        entry.batch = gemm->batch;
        entry.dtype = dtype_name(gemm->dtype);
        entry.kernel = work->kernel == NULL ? NULL : work->kernel->name;
    }
    if (entry.op != NULL && work_ended) {
        entry.shared = work->batch;
        entry.queue_ns = work->started_ns - work->queued_ns;
        entry.h2d_ns = work->h2d_ns;
        entry.kernel_ns = work->kernel_ns;
        entry.d2h_ns = work->d2h_ns;
    }
    log_access(request->daemon->log, &request->thread->log_buffer, &entry, now_ns);
}

static void count_request(const struct request *request, uint64_t now_ns)
{
    struct metrics_shard *shard = request->thread->shard;
    enum metrics_op op = request->endpoint == NULL ? METRICS_OP_OTHER : request->endpoint->op;
    bool known = computes(op) && request->gemm.request.m != 0;
    metrics_request(shard, op, known ? request->gemm.request.dtype : GEMMD_DTYPE_COUNT,
                    request->fault.code, now_ns - request->started_ns, request->received_bytes,
                    request->response_bytes);
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
