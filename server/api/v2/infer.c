/* From the headers to the queue, and the end. */
#include "server/api/v2/infer.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/number.h"
#include "server/api/compute/call_lookahead.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/respond.h"

static void count_failure(struct request *request)
{
    struct infer_call *call = request->infer;
    if (call == NULL || call->counted || call->model.stats == NULL)
        return;
    call->counted = true;
    model_stats_fail(call->model.stats, clock_now_ns() - request->started_ns);
}

void infer_fail(struct request *request)
{
    count_failure(request);
    respond_fault(request, &request->fault);
}

/* Where the JSON ends. */
static enum gemmd_error read_header(struct request *request)
{
    struct infer_call *call = request->infer;
    struct fault *fault = &request->fault;
    const uint64_t limit = request->daemon->config.max_json_bytes;
    const char *header = request_header(request, "Inference-Header-Content-Length");
    call->has_header = header != NULL;
    call->json_bytes = request->body_bytes; /* 0 where it is not known */
    if (header != NULL && !number_u64(header, &call->json_bytes))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "Inference-Header-Content-Length is not a number of bytes");
    if (request->sized && request->body_bytes == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request has no body; it is JSON, then the tensors' bytes");
    if (request->sized && call->json_bytes > request->body_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "Inference-Header-Content-Length is %" PRIu64
                         ", more than the body's %" PRIu64 " bytes",
                         call->json_bytes, request->body_bytes);
    if (call->json_bytes > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the request's JSON is %" PRIu64 " bytes long; the limit is %" PRIu64
                         ". Send tensors as binary data",
                         call->json_bytes, limit);
    return GEMMD_OK;
}

/* What struct infer_call's lead_bytes are. A body of the largest size has none. */
static uint64_t lead_bytes(const struct request *request)
{
    enum { ALIGNMENT = 64 };
    const struct infer_call *call = request->infer;
    const uint64_t lead = (ALIGNMENT - call->json_bytes % ALIGNMENT) % ALIGNMENT;
    const bool has_room = call->has_header && request->sized &&
                          request->body_bytes + lead <= request->daemon->config.max_body_bytes;
    return has_room ? lead : 0;
}

/* A deadline for the body; the request's own timeout is in there. */
static enum gemmd_error open_call(struct request *request)
{
    struct compute_call *compute = &request->call;
    const uint64_t lead = lead_bytes(request);
    const struct body_length length = {.known = request->sized,
                                       .bytes = request->body_bytes + lead};
    const uint64_t timeout_ms = request->daemon->config.default_timeout_ms;
    compute->shapes_inside = compute->sends_lse = true;
    compute->body_format = compute->answer_format = FORMAT_RAW;
    if (timeout_ms != 0)
        compute->deadline_ns = request->started_ns + timeout_ms * 1000000u;
    enum gemmd_error code = compute_call_open(compute, request->daemon, length, &request->fault);
    request->infer->lead_bytes = compute->body_bytes = lead;
    return code;
}

static enum gemmd_error find_model(struct request *request)
{
    struct model *model = &request->infer->model;
    struct compute_call *compute = &request->call;
    enum gemmd_error code =
        model_find(request->daemon, request->name, request->tenant, model, &request->fault);
    if (code != GEMMD_OK)
        return code;
    compute->operation = model->operation->operation;
    compute->operation->init(compute);
    compute->gemm.dtype = compute->attention.dtype = model->dtype;
    return GEMMD_OK;
}

void infer_begin(struct request *request)
{
    struct infer_call *call = malloc(sizeof *call);
    gemm_operation.init(&request->call); /* for the log, should there be no such model */
    request->call.memory = request->thread->memory;
    request->call.work.tenant = request->tenant_number;
    request->infer = call;
    if (call == NULL) {
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the request");
        request_refuse(request);
        return;
    }
    memset(call, 0, offsetof(struct infer_call, asked));
    if (find_model(request) != GEMMD_OK || read_header(request) != GEMMD_OK ||
        request_check_daemon(request) != GEMMD_OK || open_call(request) != GEMMD_OK) {
        count_failure(request);
        compute_call_close(&request->call, request->daemon); /* before a body that is dropped */
        request_refuse(request);
        return;
    }
    request_receive(request, request->call.deadline_ns);
}

bool infer_chunk(struct request *request, const void *bytes, uint64_t length)
{
    /* All JSON, and its length was not known before. */
    const uint64_t limit = request->daemon->config.max_json_bytes;
    if (!request->infer->has_header && length > limit - request->call.body_bytes) {
        fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                  "the request's JSON is longer than the limit of %" PRIu64
                  " bytes; send tensors as binary data",
                  limit);
        return false;
    }
    if (compute_call_append(&request->call, request->daemon, bytes, length, &request->fault) !=
        GEMMD_OK)
        return false;
    if (request->infer->has_header && !request->infer->is_read &&
        request->call.body_bytes - request->infer->lead_bytes >= request->infer->json_bytes &&
        call_lookahead_pays(&request->call, request->daemon))
        infer_look(request);
    return true;
}

/* The dispatch thread is done with it (or the timer or the verifier ended it). */
static void work_done(struct work *work)
{
    struct compute_call *call =
        (struct compute_call *)((char *)work - offsetof(struct compute_call, work));
    request_wake((struct request *)((char *)call - offsetof(struct request, call)));
}

void infer_submit(struct request *request)
{
    struct work *work = &request->call.work;
    if (infer_bind(request) != GEMMD_OK) {
        infer_fail(request);
        return;
    }
    work->done = work_done;
    work->queued_ns = clock_now_ns();
    request->connection->deadline_ns = request->call.deadline_ns; /* the request's own now */
    request_hand_over(request); /* before the push: the work may be done at once */
    queue_push(request->daemon->queue, work);
}

void infer_end(struct request *request)
{
    struct infer_call *call = request->infer;
    if (call->model.weight != NULL)
        request->call.residents.b = NULL; /* the model's */
    compute_call_finish(&request->call, request->daemon);
    pool_free(request->call.memory, call->numbers, call->numbers_bytes);
    call->numbers = NULL;
}

bool infer_withdraw(struct request *request)
{
    if (!queue_cancel(request->daemon->queue, &request->call.work))
        return false;
    infer_end(request);
    return true;
}

void infer_release(struct request *request)
{
    struct infer_call *call = request->infer;
    if (call == NULL)
        return;
    count_failure(request); /* it was not answered here */
    infer_end(request);
    compute_call_close(&request->call, request->daemon);
    pool_free(request->thread->memory, call->text, call->text_bytes);
    model_release(request->daemon, &call->model);
    free(call);
}
