#include "server/http/request_record.h"

#include "server/http/connection.h"
#include "server/http/inflater.h"
#include "server/http/io_thread.h"
#include "server/http/request.h"
#include "server/http/server.h"

static void count_request(const struct request *request, enum gemmd_dtype dtype, bool computes,
                          uint64_t now_ns)
{
    struct metrics_shard *shard = request->thread->shard;
    enum metrics_op op = request->endpoint == NULL ? METRICS_OP_OTHER : request->endpoint->op;
    metrics_request(shard, op, dtype, request->fault.code, now_ns - request->started_ns,
                    request->received_bytes, request->response_bytes);
    if (request->inflater != NULL)
        metrics_inflated(shard, inflater_total_bytes(request->inflater));
    if (!computes)
        return;
    if (request->received_ns != 0)
        metrics_stage(shard, METRICS_STAGE_RECEIVE, request->received_ns - request->started_ns);
    if (request->sending_ns != 0)
        metrics_stage(shard, METRICS_STAGE_SEND, now_ns - request->sending_ns);
}

void request_record(const struct request *request, bool work_ended, uint64_t now_ns)
{
    const bool computes = request->endpoint != NULL && request->endpoint->describe != NULL;
    enum gemmd_dtype dtype = GEMMD_DTYPE_COUNT;
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
    if (computes)
        dtype = request->endpoint->describe(request, work_ended, &entry);
    count_request(request, dtype, computes, now_ns);
    if (request->config->access_log)
        log_access(request->server->log, &request->thread->log_buffer, &entry, now_ns);
}
