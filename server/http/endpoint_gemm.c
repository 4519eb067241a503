/*
 * POST /gemm and POST /attention, from the headers to the answer. The order of the gates is the
 * order of their cost: types, parameters, the daemon's state, sizes and places, memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/daemon.h"
#include "server/http/accept.h"
#include "server/http/endpoints.h"
#include "server/http/gemm_answer.h"
#include "server/http/gemm_job.h"
#include "server/http/payload.h"
#include "server/http/respond.h"

static enum MHD_Result take_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      size_t name_size, const char *value, size_t value_size)
{
    struct request *request = cls;
    (void)kind;
    if (strlen(name) != name_size || (value != NULL && strlen(value) != value_size)) {
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL, "a parameter contains a zero byte");
        return MHD_NO;
    }
    return request->gemm.operation->set(&request->gemm, name, value == NULL ? "" : value,
                                        &request->fault) == GEMMD_OK
               ? MHD_YES
               : MHD_NO;
}

static enum gemmd_error read_body_format(struct request *request)
{
    struct gemm_call *call = &request->gemm;
    const char *type = request_header(request, "Content-Type");
    call->body_format = FORMAT_RAW;
    if (type != NULL && !format_from_media_type(type, &call->body_format))
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Type can be application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    call->shapes_inside = call->body_format != FORMAT_RAW;
    return GEMMD_OK;
}

static enum gemmd_error choose_answer_format(struct request *request)
{
    struct gemm_call *call = &request->gemm;
    if (call->request.store[0] != '\0') /* no matrix is sent */
        return GEMMD_OK;
    if (!accept_format(request_header(request, "Accept"), call->body_format, &call->answer_format))
        return fault_set(&request->fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
                         "Accept can name application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    call->sends_lse = call->answer_format == FORMAT_SAFETENSORS; /* the others send one array */
    return GEMMD_OK;
}

static enum gemmd_error read_parameters(struct request *request)
{
    struct gemm_call *call = &request->gemm;
    struct fault *fault = &request->fault;
    const struct config *config = &request->daemon->config;

    call->operation->init(call);
    MHD_get_connection_values_n(request->mhd, MHD_GET_ARGUMENT_KIND, take_parameter, request);
    if (fault->code != GEMMD_OK)
        return fault->code;
    enum gemmd_error code = call->operation->settle(call, request->daemon, request->tenant, fault);
    if (code != GEMMD_OK)
        return code;
    if (call->timeout_ms > config->max_timeout_ms)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "timeout_ms",
                         "timeout_ms can be at most %" PRIu64, config->max_timeout_ms);
    uint64_t timeout_ms = call->timeout_ms != 0 ? call->timeout_ms : config->default_timeout_ms;
    if (timeout_ms != 0)
        call->deadline_ns = request->started_ns + timeout_ms * 1000000u;
    return GEMMD_OK;
}

static void gemm_begin(struct request *request)
{
    request->gemm.operation = request->endpoint->operation;
    request->gemm.memory = request->thread->memory;
    request->gemm.work.tenant = request->tenant_number;
    struct gemm_body_length length = {.known = request->sized, .bytes = request->body_bytes};
    if (read_body_format(request) != GEMMD_OK || read_parameters(request) != GEMMD_OK ||
        choose_answer_format(request) != GEMMD_OK || request_check_daemon(request) != GEMMD_OK ||
        gemm_call_open(&request->gemm, request->daemon, length, &request->fault) != GEMMD_OK ||
        (gemm_job_wanted(request) && gemm_job_open(request) != GEMMD_OK)) {
        gemm_call_close(&request->gemm, request->daemon); /* before a body that is dropped */
        request_refuse(request);
    } else {
        request_receive(request, request->gemm.deadline_ns);
    }
}

static bool gemm_chunk(struct request *request, const void *bytes, uint64_t length)
{
    return gemm_call_append(&request->gemm, request->daemon, bytes, length, &request->fault) ==
           GEMMD_OK;
}

/* The dispatch thread is done with it (or the timer or the verifier ended it). */
static void work_done(struct work *work)
{
    struct gemm_call *call = (struct gemm_call *)((char *)work - offsetof(struct gemm_call, work));
    struct request *request = (struct request *)((char *)call - offsetof(struct request, gemm));
    request_wake(request);
}

static void gemm_submit(struct request *request)
{
    struct gemm_call *call = &request->gemm;
    if (gemm_call_bind(call, request->daemon, &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    if (request->job != NULL) {
        gemm_job_submit(request);
        return;
    }
    call->work.done = work_done;
    call->work.queued_ns = clock_now_ns();
    request_hand_over(request); /* before the push: the work may be done at once */
    queue_push(request->daemon->queue, &call->work);
}

static bool gemm_withdraw(struct request *request)
{
    if (!queue_cancel(request->daemon->queue, &request->gemm.work))
        return false;
    gemm_call_finish(&request->gemm, request->daemon);
    return true;
}

struct sent_block {
    struct pool_cache *memory;
    void *block;
    uint64_t bytes;
};

static void block_sent(void *cls)
{
    struct sent_block *sent = cls;
    pool_free(sent->memory, sent->block, sent->bytes);
    free(sent);
}

static void add_headers(struct request *request, struct MHD_Response *response)
{
    struct headers headers;
    const struct gemm_times times = {request->started_ns, request->received_ns, clock_now_ns()};
    headers_clear(&headers);
    gemm_answer_headers(&request->gemm, &times, &headers);
    headers_apply(&headers, response);
}

/* The result stays: its description is sent. */
static void answer_stored(struct request *request)
{
    char *text;
    if (gemm_residents_publish(&request->gemm.residents, request->daemon->tensors, &text,
                               &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    const uint64_t length = strlen(text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        fault_set(&request->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
        respond_fault(request, &request->fault);
        return;
    }
    add_headers(request, response);
    respond(request, 201, response, length);
}

/* Sends straight from pinned memory; the block goes back when the last byte has gone. */
static void gemm_answer(struct request *request)
{
    struct gemm_call *call = &request->gemm;
    gemm_call_finish(call, request->daemon);
    if (call->work.status != GEMMD_OK) {
        respond_fault(request, &call->work.fault);
        return;
    }
    if (call->residents.stored != NULL) {
        answer_stored(request);
        return;
    }
    struct sent_block *sent = malloc(sizeof *sent);
    struct MHD_Response *response = NULL;
    uint64_t length = call->header_bytes + call->result_bytes;
    if (sent != NULL) {
        const struct payload payload = {{{call->result, (size_t)length}}, 1, block_sent, sent};
        *sent = (struct sent_block){call->memory, call->result, length};
        response = payload_response(request, &payload);
    }
    if (response == NULL) {
        free(sent);
        struct fault fault;
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
        respond_fault(request, &fault);
        return;
    }
    call->result = NULL; /* the response's now */
    add_headers(request, response);
    respond(request, 200, response, length);
}

static void gemm_release(struct request *request)
{
    gemm_call_close(&request->gemm, request->daemon);
    job_discard(request->job);
}

const struct endpoint endpoint_gemm = {
    .path = "/gemm",
    .allow = "POST",
    .op = METRICS_OP_GEMM,
    .operation = &gemm_operation,
    .begin = gemm_begin,
    .chunk = gemm_chunk,
    .submit = gemm_submit,
    .withdraw = gemm_withdraw,
    .answer = gemm_answer,
    .release = gemm_release,
};

const struct endpoint endpoint_attention = {
    .path = "/attention",
    .allow = "POST",
    .op = METRICS_OP_ATTENTION,
    .operation = &attention_operation,
    .begin = gemm_begin,
    .chunk = gemm_chunk,
    .submit = gemm_submit,
    .withdraw = gemm_withdraw,
    .answer = gemm_answer,
    .release = gemm_release,
};
