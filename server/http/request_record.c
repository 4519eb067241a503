#include "server/http/request_parts.h"

#include <string.h>

#include "server/http/connection.h"
#include "server/http/inflater.h"
#include "server/http/io_thread.h"
#include "server/http/server.h"
#include "server/observe/notable.h"
#include "server/observe/otlp.h"

/* Notes in which state the request was when its client left, if the client did. */
static void note_left(const struct request *request, struct log_access *entry)
{
    static const char *const reasons[] = {
        [REQUEST_HEADERS] = "the client disconnected while its headers were received",
        [REQUEST_BODILESS] = "the client disconnected before the answer",
        [REQUEST_RECEIVING] = "the client disconnected while its body was received",
        [REQUEST_DISCARDING] = "the client disconnected while its body was received",
        [REQUEST_WORKING] = "the client disconnected before the result was there",
        [REQUEST_ANSWERED] = "the client disconnected while the answer was sent",
        [REQUEST_FAILED] = "the client disconnected before the answer",
    };
    if (request->fault.code == GEMMD_ERR_CANCELLED)
        entry->reason = reasons[request->state];
    else if (request->fault.code == GEMMD_ERR_SLOW_CLIENT)
        entry->reason = request->state == REQUEST_ANSWERED
                            ? "the client received the answer too slowly"
                            : "the request did not arrive in time";
    if (entry->status == 0)
        entry->status = LOG_STATUS_LEFT;
}

/* Keeps a request that failed or was slow, for the dashboard. Only requests that compute count as
 * slow, because a request such as one for the result of a job may wait for as long as its client
 * asks. */
static void keep_notable(const struct request *request, const struct log_access *entry,
                         const struct metrics_request *counted, bool computes)
{
    struct notable *notable = request->server->notable;
    const bool failed = request->fault.code != GEMMD_OK;
    /* A client that closes a page that receives a stream has not cancelled a request. */
    if (!computes && (!failed || request->fault.code == GEMMD_ERR_CANCELLED))
        return;
    const bool is_known = request->server->tokens == NULL || request->tenant[0] != '\0';
    const uint32_t tenant = is_known ? request->tenant_number : NOTABLE_NO_TENANT;
    if (!notable_wants(notable, tenant, failed, entry->total_ns))
        return;
    const char *detail = entry->reason != NULL ? entry->reason
                         : failed              ? request->fault.detail
                                               : NULL;
    notable_add(notable, failed ? NOTABLE_FAILED : NOTABLE_SLOW, tenant, entry, counted->stages_ns,
                detail);
}

void request_record(const struct request *request, bool work_ended, uint64_t now_ns)
{
    const bool computes = request->endpoint != NULL && request->endpoint->describe != NULL;
    enum gemmd_dtype dtype = GEMMD_DTYPE_COUNT;
    char client[INET6_ADDRSTRLEN];
    const bool has_client = request->client.sin6_family != 0;
    if (has_client)
        network_address_text(&request->client.sin6_addr, client);
    struct log_access entry = {
        .request_id = request->id,
        .peer = request->connection->peer,
        .client = has_client ? client : NULL,
        .method = request->method[0] == '\0' ? NULL : request->method,
        .path = request->path[0] == '\0' ? NULL : request->path,
        .error = request->fault.code == GEMMD_OK ? NULL : error_slug(request->fault.code),
        .status = request->status,
        .tenant = request->tenant[0] == '\0' ? NULL : request->tenant,
        .trace_id = request->trace.trace_id,
        .span_id = request->trace.span_id,
        .request_bytes = request->received_bytes,
        .response_bytes = request->response_bytes,
        .started_ns = request->started_ns,
        .sending_ns = request->sending_ns,
        .send_ns = request->sending_ns == 0 ? 0 : now_ns - request->sending_ns,
        .total_ns = now_ns - request->started_ns,
    };
    if (request->fault.code != GEMMD_OK || request->status == 0)
        note_left(request, &entry);
    if (request->received_ns != 0)
        entry.receive_ns = request->received_ns - request->started_ns;
    if (computes)
        dtype = request->endpoint->describe(request, work_ended, &entry);
    else if (work_ended && request->endpoint != NULL && request->endpoint->copied != NULL &&
             request->call != NULL)
        request->endpoint->copied(request, &entry);

    /* A request that was refused before its token was read belongs to no tenant. */
    struct metrics_request counted = {
        .op = request->endpoint == NULL ? METRICS_OP_OTHER : request->endpoint->op,
        .dtype = dtype,
        .code = request->fault.code,
        .tenant = request->tenant[0] == '\0' ? METRICS_NO_TENANT : request->tenant_number,
        .duration_ns = entry.total_ns,
        .request_bytes = request->received_bytes,
        .response_bytes = request->response_bytes,
        .was_compressed = request->inflater != NULL,
        .inflated_bytes = request->inflater == NULL ? 0 : inflater_total_bytes(request->inflater),
        .trace = request->trace.sampled ? &request->trace : NULL,
    };
    if (computes) { /* only the stages of requests that compute are counted */
        counted.stages_ns[METRICS_STAGE_RECEIVE] = entry.receive_ns;
        counted.stages_ns[METRICS_STAGE_QUEUE] = entry.queue_ns;
        counted.stages_ns[METRICS_STAGE_H2D] = entry.h2d_ns;
        counted.stages_ns[METRICS_STAGE_KERNEL] = entry.kernel_ns;
        counted.stages_ns[METRICS_STAGE_D2H] = entry.d2h_ns;
        counted.stages_ns[METRICS_STAGE_SEND] = entry.send_ns;
    }
    metrics_request(request->thread->shard, &counted);
    keep_notable(request, &entry, &counted, computes);
    if (request->trace.sampled && request->server->otlp != NULL) {
        char state[OTLP_STATE_MAX + 1];
        request_trace_state(request, state, sizeof state);
        otlp_request(request->server->otlp, &request->trace, state, &entry);
    }
    if (!request->config->access_log)
        return;
    /* The reason of an error that the client was told. A span does not have this reason, because
     * the reason may quote the request's query. */
    if (entry.reason == NULL && request->fault.code != GEMMD_OK)
        entry.reason = request->fault.detail;
    log_access(request->server->log, &request->thread->log_buffer, &entry, now_ns);
}
