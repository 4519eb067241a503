/* An inference from its headers to the queue, and its end. */
#include "proto/size_text.h"
#include "server/api/v2/infer_call.h"

#include <inttypes.h>
#include <stddef.h>

#include "proto/number.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/base/owner.h"
#include "server/http/respond.h"

/* JSON up to this length is read and written in a millisecond or two (endpoint.h: takes_long). */
enum { LONG_JSON_BYTES = 64 * 1024 };

static void count_failure(struct request *request)
{
    struct infer_call *call = infer_of(request);
    if (call->counted || call->model.stats == NULL)
        return;
    call->counted = true;
    model_stats_fail(call->model.stats, clock_now_ns() - request->started_ns);
}

void infer_fail(struct request *request)
{
    count_failure(request);
    respond_fault(request, &request->fault);
}

/* Reads from the headers where the JSON ends. */
static enum gemmd_error read_header(struct request *request)
{
    struct infer_call *call = infer_of(request);
    struct fault *fault = &request->fault;
    const uint64_t limit = request->config->max_json_bytes;
    const char *header = request_header(request, "Inference-Header-Content-Length");
    call->has_header = header != NULL;
    call->json_bytes = request->body_bytes; /* 0 if the length is not known */
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
                         "the request's JSON is %s; --max-json is %s; send tensors as binary data",
                         size_text(call->json_bytes).text, size_text(limit).text);
    return GEMMD_OK;
}

/* Computes lead_bytes of struct infer_call: 0 if the body would exceed --max-body with them. */
static uint64_t lead_bytes(const struct request *request)
{
    enum { ALIGNMENT = 64 };
    const struct infer_call *call = infer_of(request);
    const uint64_t lead = (ALIGNMENT - call->json_bytes % ALIGNMENT) % ALIGNMENT;
    const bool has_room = call->has_header && request->sized &&
                          request->body_bytes + lead <= request->config->max_body_bytes;
    return has_room ? lead : 0;
}

/* Opens the call. Until the JSON has arrived, which has the request's own timeout, the deadline is
 * that of the daemon's default timeout. */
static enum gemmd_error open_call(struct request *request)
{
    struct compute_call *compute = &infer_of(request)->compute;
    const uint64_t lead = lead_bytes(request);
    const struct body_length length = {.known = request->sized,
                                       .bytes = request->body_bytes + lead};
    const uint64_t timeout_ms = request->config->default_timeout_ms;
    compute->shapes_inside = compute->sends_lse = true;
    compute->body_format = compute->answer_format = FORMAT_RAW;
    if (timeout_ms != 0)
        compute->deadline_ns = request->started_ns + timeout_ms * 1000000u;
    enum gemmd_error code =
        compute_call_open(compute, services_of(request), length, &request->fault);
    infer_of(request)->lead_bytes = compute->body_bytes = lead;
    return code;
}

static enum gemmd_error find_model(struct request *request)
{
    struct model *model = &infer_of(request)->model;
    struct compute_call *compute = &infer_of(request)->compute;
    enum gemmd_error code =
        model_find(services_of(request), request->name, request->tenant, model, &request->fault);
    if (code != GEMMD_OK)
        return code;
    compute_call_begin(compute, model->operation->operation);
    model->operation->set_dtype(&compute->request, model->dtype);
    return GEMMD_OK;
}

/* Checks the request at its headers, and opens its call. */
static enum gemmd_error admit(struct request *request)
{
    enum gemmd_error code = find_model(request);
    if (code == GEMMD_OK)
        code = read_header(request);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK)
        code = open_call(request);
    return code;
}

void infer_begin(struct request *request)
{
    struct infer_call *call = infer_of(request);
    struct compute_call *compute = &call->compute;
    call->request = request;
    compute_call_begin(compute, &call_gemm); /* for the log, if there is no such model */
    compute->config = request->config;
    compute->memory = services_memory(request);
    compute->work.tenant = request->tenant_number;
    compute->request_id = request->id;
    if (admit(request) != GEMMD_OK) {
        count_failure(request);
        compute_call_close(compute, services_of(request)); /* before the body is dropped */
        request_refuse(request);
        return;
    }
    request_receive(request, compute->deadline_ns);
}

bool infer_chunk(struct request *request, const void *bytes, uint64_t length)
{
    /* Without the header Inference-Header-Content-Length, the whole body is JSON. The length of a
     * chunked or compressed body is known only now. */
    const uint64_t limit = request->config->max_json_bytes;
    if (!infer_of(request)->has_header && length > limit - infer_of(request)->compute.body_bytes) {
        fault_set(&request->fault, GEMMD_ERR_TOO_LARGE, NULL,
                  "the request's JSON is longer than --max-json, which is %s; send tensors as "
                  "binary data",
                  size_text(limit).text);
        return false;
    }
    if (compute_call_append(&infer_of(request)->compute, services_of(request), bytes, length,
                            &request->fault) != GEMMD_OK)
        return false;
    const struct infer_call *call = infer_of(request);
    if (call->has_header && !call->is_read && call->json_bytes <= LONG_JSON_BYTES &&
        call->compute.body_bytes - call->lead_bytes >= call->json_bytes &&
        compute_call_copies_early(&call->compute))
        infer_look(request);
    return true;
}

bool infer_takes_long(const struct request *request)
{
    const struct infer_call *call = infer_of(request);
    if (request->state == REQUEST_WORKING)
        return call->text_bytes > LONG_JSON_BYTES;
    return (call->has_header ? call->json_bytes : call->compute.body_bytes) > LONG_JSON_BYTES;
}

/* Runs on the thread that ends the work: the dispatch thread or the main thread. */
static void infer_work_done(struct work *work)
{
    const struct infer_call *call = OWNER_OF(work, struct infer_call, compute.work);
    request_wake(call->request);
}

void infer_submit(struct request *request)
{
    struct work *work = &infer_of(request)->compute.work;
    if (infer_bind(request) != GEMMD_OK) {
        infer_fail(request);
        return;
    }
    work->done = infer_work_done;
    work->queued_ns = clock_now_ns();
    /* The deadline now is that of the timeout in the JSON, if it has one. */
    request_set_deadline(request, infer_of(request)->compute.deadline_ns);
    request_hand_over(request); /* before the push, because the work may be done at once */
    compute_call_push(&infer_of(request)->compute);
}

void infer_end(struct request *request)
{
    struct infer_call *call = infer_of(request);
    compute_call_finish(&infer_of(request)->compute, services_of(request));
    pool_free(infer_of(request)->compute.memory, call->numbers, call->numbers_bytes);
    call->numbers = NULL;
}

bool infer_withdraw(struct request *request)
{
    if (!compute_call_cancel(&infer_of(request)->compute))
        return false;
    infer_end(request);
    return true;
}

void infer_release(struct request *request)
{
    struct infer_call *call = infer_of(request);
    count_failure(request); /* if the request was neither answered nor counted before */
    infer_end(request);
    compute_call_close(&call->compute, services_of(request));
    pool_free(services_memory(request), call->text, call->text_bytes);
    model_release(services_of(request), &call->model);
}

uint32_t infer_retry_after_s(const struct request *request, enum gemmd_error code)
{
    return services_retry_after_s(request, code, infer_of(request)->compute.queue_bytes);
}

enum gemmd_dtype infer_describe(const struct request *request, bool work_ended,
                                struct log_access *entry)
{
    static const struct compute_call none;
    entry->op = "infer";
    return compute_call_describe(request->call == NULL ? &none : &infer_of(request)->compute,
                                 &call_gemm, work_ended, entry);
}
