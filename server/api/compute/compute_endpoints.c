/*
 * The endpoints that compute: POST /gemm, POST /attention and the other operations, from the
 * headers of a request to its answer. The cheap checks come first: types, parameters, the daemon's
 * state, sizes and reservation, memory.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/dtype.h"
#include "proto/memory_header.h"
#include "server/api/compute/call_placement.h"
#include "server/api/compute/call_sequence.h"
#include "server/api/compute/compute_call.h"
#include "server/api/endpoints.h"
#include "server/api/services.h"
#include "server/base/clock.h"
#include "server/http/connection.h"
#include "server/http/negotiation.h"
#include "server/http/respond.h"
#include "server/jobs/jobs.h"

static struct compute_call *call_of(const struct request *request)
{
    return &((struct compute_request *)request->call)->call;
}

/* The arguments of parameter_set for the parameters of a query. */
struct parameter_target {
    const struct parameter_table *table;
    union call_request *request;
    struct fault *fault;
};

static bool compute_take_parameter(void *context, const char *name, const char *value)
{
    const struct parameter_target *target = context;
    return parameter_set(target->table, target->request, name, value, target->fault) == GEMMD_OK;
}

static bool is_type(const char *type, const char *name)
{
    const size_t length = strlen(name);
    return strncasecmp(type, name, length) == 0 &&
           (type[length] == '\0' || strchr("; \t", type[length]) != NULL);
}

/* Explains why the body is too short, if curl sent it: the option -d leaves line ends out and ends
 * at a zero byte, and has the same Content-Type as --data-binary. */
static void explain_short_form(struct request *request, const struct compute_call *call)
{
    const char *type = request_header(request, "Content-Type");
    const struct fault fault = request->fault;
    if (request->sized && request->body_bytes < call->layout.bytes && type != NULL &&
        is_type(type, "application/x-www-form-urlencoded"))
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, fault.field,
                  "%.180s; with curl, send the bytes by --data-binary: -d leaves bytes out",
                  fault.detail);
}

/* Whether a body begins as a JSON object does. */
static bool begins_json(const char *bytes, uint64_t length)
{
    uint64_t at = 0;
    while (at < length && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    if (at == length || bytes[at++] != '{')
        return false;
    while (at < length && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    return at < length && (bytes[at] == '"' || bytes[at] == '}');
}

/* Explains the refusal of a JSON body. A client that sends JSON often names no parameters, or its
 * body has another length than the parameters say; without the explanation, the client would only
 * read about a missing parameter or a wrong length. */
static void compute_refused(struct request *request, const char *bytes, uint64_t length)
{
    const struct compute_call *call = call_of(request);
    const struct fault fault = request->fault;
    if (fault.code != GEMMD_ERR_MALFORMED || call->shapes_inside || !begins_json(bytes, length))
        return;
    if (fault.field[0] == '\0')
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                  "the body is JSON, and %s takes the bytes of the operands; POST "
                  "/v2/models/%s/infer takes JSON",
                  call->operation->operands->path, call->operation->json_model);
    else
        fault_set(&request->fault, GEMMD_ERR_MALFORMED, fault.field,
                  "%.187s; the body is JSON, which POST /v2/models/%s/infer takes", fault.detail,
                  call->operation->json_model);
}

static enum gemmd_error read_body_format(struct request *request, struct compute_call *call)
{
    const char *type = request_header(request, "Content-Type");
    call->body_format = FORMAT_RAW;
    if (type != NULL && is_type(type, "application/json"))
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Type can be application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy; POST "
                         "/v2/models/%s/infer takes JSON",
                         call->operation->json_model);
    if (type != NULL && !format_from_media_type(type, &call->body_format))
        return fault_set(&request->fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "Content-Type can be application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    call->shapes_inside = call->body_format != FORMAT_RAW;
    return GEMMD_OK;
}

/* Chooses the format of the answer, as Accept says. A stored result has no format, because the
 * answer is a JSON document about the result. */
static enum gemmd_error choose_answer_format(struct request *request, struct compute_call *call)
{
    char accept[REQUEST_LIST_MAX];
    if (compute_call_store(call)[0] != '\0')
        return GEMMD_OK;
    if (!accept_format(request_header_list(request, "Accept", accept), call->body_format,
                       &call->answer_format))
        return fault_set(&request->fault, GEMMD_ERR_NOT_ACCEPTABLE, NULL,
                         "Accept can name application/octet-stream, "
                         "application/vnd.safetensors or application/x-npy");
    /* Of the formats, only safetensors has room for a second array. */
    call->sends_lse = call->answer_format == FORMAT_SAFETENSORS;
    return GEMMD_OK;
}

/* Refuses a priority that the request's token does not allow, and chooses that of a request that
 * names none. */
static enum gemmd_error settle_priority(struct request *request, struct compute_call *call)
{
    if (!parameter_given(call->operation->parameters, &call->request, "priority"))
        call->priority = request_default_priority(request);
    return call->priority <= request->max_priority
               ? GEMMD_OK
               : fault_set(&request->fault, GEMMD_ERR_FORBIDDEN, "priority",
                           "priority is %" PRIu32
                           "; the highest that this token allows is %" PRIu32,
                           call->priority, request->max_priority);
}

static enum gemmd_error read_parameters(struct request *request, struct compute_call *call,
                                        struct services *services)
{
    struct fault *fault = &request->fault;
    const struct config *config = request->config;

    struct parameter_target target = {call->operation->parameters, &call->request, fault};
    if (request_parameters(request, compute_take_parameter, &target) != GEMMD_OK)
        return fault->code;
    enum gemmd_error code = compute_call_settle(call, services, request->tenant, fault);
    if (code == GEMMD_OK)
        code = settle_priority(request, call);
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

/* Says why the connection has no memory. */
static enum gemmd_error refuse_no_memory(struct request *request)
{
    const struct shm_offer *offer = request->connection->memory;
    if (!request->config->shm_memfd)
        return fault_set(&request->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "shared memory of connections is off (--shm-memfd)");
    if (offer == NULL)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         MEMORY_HEADER " is for connections over a Unix socket whose first line is "
                                       "empty and has one memfd with it");
    request->fault = offer->fault;
    return offer->fault.code;
}

static enum gemmd_error find_shared_operand(struct compute_call *call, struct shm_mapping *mapping,
                                            uint32_t operand,
                                            const struct memory_location *location,
                                            struct fault *fault)
{
    unsigned char *at;
    enum gemmd_error code = client_memory_find(mapping, location->name, location->offset,
                                               call->layout.tensors[operand].bytes, 1, &at, fault);
    if (code != GEMMD_OK)
        return code;
    call->client_memory.operands[operand] = at;
    operand_layout_leave_out(&call->layout, operand);
    return GEMMD_OK;
}

/* The name of an operand in Gemmd-Memory. NULL: the request has no such operand, or the operand can
 * only be sent in the body. */
static const char *operand_name(const struct compute_call *call, uint32_t operand)
{
    return call->layout.tensors[operand].rank > 0
               ? call->operation->operands->operands[operand].memory_name
               : NULL;
}

static enum gemmd_error find_shared_result(struct compute_call *call, struct shm_mapping *mapping,
                                           const struct memory_location *location,
                                           struct fault *fault)
{
    struct client_memory *client_memory = &call->client_memory;
    if (compute_call_store(call)[0] != '\0')
        return fault_set(fault, GEMMD_ERR_MALFORMED, "store",
                         "the result can be stored or be in the shared memory, not both");
    call->sends_lse = false;
    if (!call_measure_results(call, &call->request))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result's size does not fit in 64 bits");
    client_memory->result = (struct client_result){.wanted = true, .room_bytes = call->c.bytes};
    return client_memory_find(mapping, location->name, location->offset, call->c.bytes,
                              dtype_size(call->c.dtype), &client_memory->result.at, fault);
}

/* Finds the operands and the result of a request to compute that the header Gemmd-Memory names in
 * the shared memory of the request's connection. Does nothing without that header. To be called on
 * the request's I/O thread when all parameters are settled, before compute_call_open. Errors are in
 * request->fault: GEMMD_ERR_MALFORMED if an operand or the result is not in the memory or the
 * connection has no memory, GEMMD_ERR_NOT_IMPLEMENTED if --shm-memfd is off, GEMMD_ERR_MEDIA_TYPE
 * if the body is not raw, or the error with which mapping the memory failed. */
static enum gemmd_error take_shared_memory(struct request *request)
{
    struct compute_call *call = call_of(request);
    struct fault *fault = &request->fault;
    const struct shm_offer *offer = request->connection->memory;
    struct shm_mapping *mapping = offer != NULL ? offer->mapping : NULL;
    struct memory_locations locations;
    const char *header = request_header(request, MEMORY_HEADER);
    if (header == NULL)
        return GEMMD_OK;
    if (mapping == NULL)
        return refuse_no_memory(request);
    enum gemmd_error code = memory_header_read(header, &locations, fault);
    if (code != GEMMD_OK)
        return code;
    if (call->body_format != FORMAT_RAW)
        return fault_set(fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "operands in shared memory are raw: Content-Type has to be "
                         "application/octet-stream");
    shm_mapping_hold(mapping);
    code = client_memory_hold(&call->client_memory, mapping, fault);

    uint32_t used = 0;
    for (uint32_t i = 0; i < call->layout.count && code == GEMMD_OK; i++) {
        const char *name = operand_name(call, i);
        const struct memory_location *location =
            name != NULL ? memory_locations_find(&locations, name) : NULL;
        if (location == NULL)
            continue; /* the operand is in the body */
        used++;
        code = find_shared_operand(call, mapping, i, location, fault);
    }
    const struct memory_location *result =
        memory_locations_find(&locations, call->operation->result_name);
    if (code == GEMMD_OK && result != NULL)
        code = find_shared_result(call, mapping, result, fault);
    if (code == GEMMD_OK && used + (result != NULL) < locations.count)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         MEMORY_HEADER " names something that this request does not have, or that "
                                       "can only come in the body");
    return code;
}

/* Whether the request becomes a job: the client asks for a job and --max-jobs is not 0. While the
 * daemon drains there are no new jobs, because the client could not fetch the result; such a
 * request is answered with its result. A request that uses the memory of its connection does not
 * become a job either, because that memory ends with the connection. */
static bool becomes_job(const struct request *request)
{
    return request_header(request, "Prefer") != NULL && request->config->max_jobs > 0 &&
           call_of(request)->client_memory.mapping_count == 0 &&
           atomic_load(&request->server->stage) == HTTP_SERVING &&
           request_preferences(request).respond_async;
}

/* Checks the request at its headers, and takes what the call needs: its reservation, its memory
 * and, if the client wants one, a job. */
static enum gemmd_error compute_admit(struct request *request, struct compute_call *call,
                                      struct services *services)
{
    const struct body_length length = {.known = request->sized, .bytes = request->body_bytes};
    enum gemmd_error code = read_body_format(request, call);
    if (code == GEMMD_OK)
        code = read_parameters(request, call, services);
    if (code == GEMMD_OK)
        code = choose_answer_format(request, call);
    if (code == GEMMD_OK)
        code = services_check(request);
    if (code == GEMMD_OK && !call->shapes_inside)
        code = compute_call_layout(call, &request->fault);
    if (code == GEMMD_OK)
        code = take_shared_memory(request);
    if (code == GEMMD_OK) {
        code = compute_call_open(call, services, length, &request->fault);
        if (code == GEMMD_ERR_MALFORMED && !call->shapes_inside)
            explain_short_form(request, call);
    }
    if (code == GEMMD_OK && becomes_job(request))
        code = compute_job_open(request);
    if (code == GEMMD_OK)
        code = compute_call_look_ahead(call, services, &request->fault);
    return code;
}

static void compute_begin(struct request *request)
{
    struct compute_request *state = request->call;
    struct compute_call *call = &state->call;
    struct services *services = services_of(request);
    state->request = request;
    compute_call_begin(call, request->endpoint->context);
    call->request_id = request->id;
    call->config = request->config;
    call->memory = services_memory(request);
    call->work.tenant = request->tenant_number;
    if (compute_admit(request, call, services) != GEMMD_OK) {
        compute_call_close(call, services); /* before the body is received and dropped */
        request_refuse(request);
        return;
    }
    request_receive(request, call->deadline_ns);
}

static bool compute_chunk(struct request *request, const void *bytes, uint64_t length)
{
    struct compute_call *call = call_of(request);
    struct services *services = services_of(request);
    return compute_call_append(call, services, bytes, length, &request->fault) == GEMMD_OK;
}

/* Runs on the thread that ends the work: the dispatch thread, the main thread, or, if the device is
 * lost, the I/O thread that pushes the work. */
static void compute_work_done(struct work *work)
{
    const struct compute_request *state =
        (struct compute_request *)((char *)work - offsetof(struct compute_request, call.work));
    request_wake(state->request);
}

static void compute_submit(struct request *request)
{
    const struct compute_request *state = request->call;
    struct compute_call *call = call_of(request);
    struct services *services = services_of(request);
    if (compute_call_bind(call, services, &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    if (state->job != NULL) {
        compute_job_submit(request);
        return;
    }
    call->work.done = compute_work_done;
    call->work.queued_ns = clock_now_ns();
    request_hand_over(request); /* before the push, because the work may be done at once */
    compute_call_push(call);
}

static bool compute_withdraw(struct request *request)
{
    struct compute_call *call = call_of(request);
    if (!compute_call_cancel(call))
        return false;
    compute_call_finish(call, services_of(request));
    return true;
}

static struct compute_times times_of(const struct request *request)
{
    return (struct compute_times){request->started_ns, request->received_ns, clock_now_ns()};
}

/* Answers a request whose result is stored on the device, with a description of the result. */
static void compute_answer_stored(struct request *request)
{
    struct compute_call *call = call_of(request);
    const struct compute_times times = times_of(request);
    struct headers headers;
    char *text;
    if (call_residents_publish(&call->residents, services_of(request)->tensors, &text,
                               &request->fault) != GEMMD_OK) {
        respond_fault(request, &request->fault);
        return;
    }
    headers_clear(&headers);
    compute_call_headers(call, &times, &headers);
    const struct payload payload = {.parts = {{text, strlen(text)}},
                                    .count = 1,
                                    .sent = free,
                                    .context = text,
                                    .as_it_is = true};
    respond(request, 201, &headers, &payload);
}

/* Answers a request whose result is in the client's shared memory, without a body. */
static void compute_answer_shared(struct request *request)
{
    const struct compute_times times = times_of(request);
    struct headers headers;
    headers_clear(&headers);
    compute_call_product_headers(call_of(request), &times, &headers);
    respond_empty(request, 200, &headers, 0);
}

/* Sends the result from pinned memory, without a copy. */
static void compute_answer_result(struct request *request)
{
    struct compute_call *call = call_of(request);
    const struct compute_times times = times_of(request);
    const uint64_t length = call->header_bytes + call->result_bytes;
    struct headers headers;
    struct sent_block *sent =
        sent_block_create(call->memory, call->result, length, &call->reservation);
    if (sent == NULL) {
        respond_out_of_memory(request);
        return;
    }
    const struct payload payload = {.parts = {{call->result, (size_t)length}},
                                    .count = 1,
                                    .sent = sent_block_end,
                                    .context = sent};
    call->result = NULL;
    headers_clear(&headers);
    compute_call_headers(call, &times, &headers);
    respond(request, 200, &headers, &payload);
}

static void compute_answer(struct request *request)
{
    struct compute_call *call = call_of(request);
    call_sequence_commit(call, services_of(request));
    compute_call_finish(call, services_of(request));
    if (call->work.status != GEMMD_OK)
        respond_fault(request, &call->work.fault);
    else if (call->residents.stored != NULL)
        compute_answer_stored(request);
    else if (call->client_memory.result.wanted)
        compute_answer_shared(request);
    else
        compute_answer_result(request);
}

static void compute_release(struct request *request)
{
    struct compute_request *state = request->call;
    compute_call_close(&state->call, services_of(request));
    job_discard(state->job);
}

static uint32_t compute_retry_after_s(const struct request *request, enum gemmd_error code)
{
    return services_retry_after_s(request, code, call_of(request)->queue_bytes);
}

/* Describes a request for the log. A request that was refused before its state was allocated is
 * described with an empty call. */
static enum gemmd_dtype compute_describe(const struct request *request, bool work_ended,
                                         struct log_access *entry)
{
    static const struct compute_call none;
    const struct call_operation *operation = request->endpoint->context;
    const struct compute_call *call = request->call == NULL ? &none : call_of(request);
    entry->op = operation->operation->name;
    return compute_call_describe(call, operation, work_ended, entry);
}

/* The endpoint at the path `at`, whose requests metrics count under `metrics`. */
#define COMPUTE(at, metrics, operation)                                                            \
    {                                                                                              \
        .path = at, .allow = "POST", .op = metrics, .context = &(operation),                       \
        .scope = SCOPE_COMPUTE, .call_bytes = sizeof(struct compute_request),                      \
        .call_zeroed_bytes = offsetof(struct compute_request, call.layout),                        \
        .begin = compute_begin, .chunk = compute_chunk, .submit = compute_submit,                  \
        .refused = compute_refused, .withdraw = compute_withdraw, .answer = compute_answer,        \
        .release = compute_release, .retry_after_s = compute_retry_after_s,                        \
        .describe = compute_describe                                                               \
    }

const struct endpoint compute_endpoints[] = {
    COMPUTE("/gemm", METRICS_OP_OF(OPERATION_GEMM), call_gemm),
    COMPUTE("/attention", METRICS_OP_OF(OPERATION_ATTENTION), call_attention),
    COMPUTE("/conv2d", METRICS_OP_OF(OPERATION_CONV2D), call_conv2d),
    COMPUTE("/reduce", METRICS_OP_OF(OPERATION_REDUCE), call_reduce),
    COMPUTE("/softmax", METRICS_OP_OF(OPERATION_SOFTMAX), call_softmax),
    COMPUTE("/experts", METRICS_OP_OF(OPERATION_EXPERTS), call_experts),
    {0},
};
