#include "server/api/compute/compute_job_record.h"

#include <string.h>

#include "server/api/compute/call_log.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/observe/otlp.h"

void compute_job_note_origin(struct compute_job_origin *origin, const struct request *request)
{
    memcpy(origin->request_id, request->id, sizeof origin->request_id);
    origin->tenant = request->tenant;
    origin->trace = request->trace;
    origin->is_logged = request->config->access_log;
}

void compute_job_record(const struct compute_job_origin *origin, const struct compute_call *call,
                        const struct compute_times *times, const struct services *services,
                        const struct fault *fault, uint64_t bytes)
{
    struct log_access entry = {
        .message = "job",
        .request_id = origin->request_id,
        .job = origin->job_id,
        .tenant = origin->tenant[0] == '\0' ? NULL : origin->tenant,
        .trace_id = origin->trace.trace_id,
        .span_id = origin->trace.span_id,
        .op = call->operation->name,
        .error = fault->code == GEMMD_OK ? NULL : error_slug(fault->code),
        .reason = fault->code == GEMMD_OK ? NULL : fault->detail,
        .status = error_status(fault->code),
        .request_bytes = call->body_bytes,
        .response_bytes = bytes,
        .started_ns = times->started_ns,
        .receive_ns = times->received_ns - times->started_ns,
        .total_ns = clock_now_ns() - times->started_ns,
    };
    (void)call_log_describe(call, call->operation, true, &entry);
    if (origin->is_logged)
        log_entry(services->log, &entry);
    if (services->http->otlp != NULL && origin->trace.sampled)
        otlp_job(services->http->otlp, &origin->trace, &entry);
}
