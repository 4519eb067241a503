/*
 * POST /gemm and POST /attention, from the headers to the answer. The order of the gates is the
 * order of their cost: types, parameters, the daemon's state, sizes and places, memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/accept.h"
#include "server/api/compute/compute_answer.h"
#include "server/api/compute/compute_job.h"
#include "server/api/compute/compute_memory.h"
#include "server/api/sent_block.h"
#include "server/base/clock.h"
#include "server/daemon.h"
#include "server/http/endpoints.h"
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
    return request->call.operation->set(&request->call, name, value == NULL ? "" : value,
                                        &request->fault) == GEMMD_OK
               ? MHD_YES
               : MHD_NO;
}

static enum gemmd_error read_body_format(struct request *request)
{
    struct compute_call *call = &request->call;
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
    struct compute_call *call = &request->call;
    if (call->gemm.store[0] != '\0') /* no matrix is sent */
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
    struct compute_call *call = &request->call;
    struct fault *fault = &request->fault;
    const struct config *config = &request->daemon->config;

    call->operation->init(call);
    MHD_get_connection_values_n(request->mhd, MHD_GET_ARGUMENT_KIND, take_parameter, request);
    if (fault->code != GEMMD_OK)
        return fault->code;
    enum gemmd_error code = call->operation->settle(call, request->daemon, request->tenant, fault);
    if (code != GEMMD_OK)
        return code;
    const uint64_t longest_ms = config_longest_timeout_ms(config);
    if (call->timeout_ms > longest_ms)
        return fault_set(fault, GEMMD_ERR_MALFORMED, "timeout_ms",
                         "timeout_ms can be at most %" PRIu64, longest_ms);
    uint64_t timeout_ms = call->timeout_ms != 0 ? call->timeout_ms : config->default_timeout_ms;
    if (timeout_ms != 0)
        call->deadline_ns = request->started_ns + timeout_ms * 1000000u;
    return GEMMD_OK;
}

static void compute_begin(struct request *request)
{
    request->call.operation = request->endpoint->operation;
    request->call.memory = request->thread->memory;
    request->call.work.tenant = request->tenant_number;
    struct body_length length = {.known = request->sized, .bytes = request->body_bytes};
    if (read_body_format(request) != GEMMD_OK || read_parameters(request) != GEMMD_OK ||
        choose_answer_format(request) != GEMMD_OK || request_check_daemon(request) != GEMMD_OK ||
        compute_memory_open(request) != GEMMD_OK ||
        compute_call_open(&request->call, request->daemon, length, &request->fault) != GEMMD_OK ||
        (compute_job_wanted(request) && compute_job_open(request) != GEMMD_OK)) {
        compute_call_close(&request->call, request->daemon); /* before a body that is dropped */
        request_refuse(request);
    } else {
        request_receive(request, request->call.deadline_ns);
    }
}

static bool compute_chunk(struct request *request, const void *bytes, uint64_t length)
{
    return compute_call_append(&request->call, request->daemon, bytes, length, &request->fault) ==
           GEMMD_OK;
}

/* The dispatch thread is done with it (or the timer or the verifier ended it). */
static void work_done(struct work *work)
{
    struct compute_call *call =
        (struct compute_call *)((char *)work - offsetof(struct compute_call, work));
    struct request *request = (struct request *)((char *)call - offsetof(struct request, call));
    request_wake(request);
}

static void compute_submit(struct request *request)
{
    struct compute_call *call = &request->call;
    if (compute_call_bind(call, request->daemon, &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    if (request->job != NULL) {
        compute_job_submit(request);
        return;
    }
    call->work.done = work_done;
    call->work.queued_ns = clock_now_ns();
    request_hand_over(request); /* before the push: the work may be done at once */
    queue_push(request->daemon->queue, &call->work);
}

static bool compute_withdraw(struct request *request)
{
    if (!queue_cancel(request->daemon->queue, &request->call.work))
        return false;
    compute_call_finish(&request->call, request->daemon);
    return true;
}

static void add_headers(struct request *request, struct MHD_Response *response)
{
    struct headers headers;
    const struct compute_times times = {request->started_ns, request->received_ns, clock_now_ns()};
    headers_clear(&headers);
    compute_answer_headers(&request->call, &times, &headers);
    headers_apply(&headers, response);
}

/* The result stays: its description is sent. */
static void answer_stored(struct request *request)
{
    char *text;
    if (call_residents_publish(&request->call.residents, request->daemon->tensors, &text,
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

/* The result is where the client wants it: there is nothing to send. */
static void answer_placed(struct request *request)
{
    struct headers headers;
    const struct compute_times times = {request->started_ns, request->received_ns, clock_now_ns()};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        headers_clear(&headers);
        compute_answer_product_headers(&request->call, &times, &headers);
        headers_apply(&headers, response);
    }
    respond(request, 200, response, 0);
}

/* Straight from pinned memory. NULL: out of memory. */
static struct MHD_Response *result_response(struct request *request, uint64_t length)
{
    struct compute_call *call = &request->call;
    struct sent_block *sent = sent_block_create(call->memory, call->result, length);
    if (sent == NULL)
        return NULL;
    const struct payload payload = {{{call->result, (size_t)length}}, 1, sent_block_end, sent};
    struct MHD_Response *response = payload_response(request, &payload);
    call->result = NULL;
    if (response == NULL)
        sent_block_end(sent);
    return response;
}

static void compute_answer(struct request *request)
{
    struct compute_call *call = &request->call;
    compute_call_finish(call, request->daemon);
    if (call->work.status != GEMMD_OK) {
        respond_fault(request, &call->work.fault);
        return;
    }
    if (call->residents.stored != NULL) {
        answer_stored(request);
        return;
    }
    if (call->places.result.there) {
        answer_placed(request);
        return;
    }
    const uint64_t length = call->header_bytes + call->result_bytes;
    struct MHD_Response *response = result_response(request, length);
    if (response == NULL) {
        struct fault fault;
        fault_set(&fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for the answer");
        respond_fault(request, &fault);
        return;
    }
    add_headers(request, response);
    respond(request, 200, response, length);
}

static void compute_release(struct request *request)
{
    compute_call_close(&request->call, request->daemon);
    job_discard(request->job);
}

const struct endpoint endpoint_gemm = {
    .path = "/gemm",
    .allow = "POST",
    .op = METRICS_OP_GEMM,
    .operation = &gemm_operation,
    .begin = compute_begin,
    .chunk = compute_chunk,
    .submit = compute_submit,
    .withdraw = compute_withdraw,
    .answer = compute_answer,
    .release = compute_release,
};

const struct endpoint endpoint_attention = {
    .path = "/attention",
    .allow = "POST",
    .op = METRICS_OP_ATTENTION,
    .operation = &attention_operation,
    .begin = compute_begin,
    .chunk = compute_chunk,
    .submit = compute_submit,
    .withdraw = compute_withdraw,
    .answer = compute_answer,
    .release = compute_release,
};
