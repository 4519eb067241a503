#include "client/compute.h"

#include <string.h>

#include "client/daemon.h"
#include "client/failure.h"
#include "client/payload.h"
#include "client/query.h"
#include "client/schedule.h"

/* An `accept` for the answer that a job was handed in. A daemon that accepts no jobs answers with
 * the result instead (RFC 7240). */
static enum gemmd_error accept_taken(struct gemmd_request *request, const struct answer *answer)
{
    if (query_check_job(answer->job, NULL) != GEMMD_OK)
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer's Location header is missing or names no job");
    request->expected.bytes = request->expected.lse_bytes = 0;
    return GEMMD_OK;
}

static enum gemmd_error accept_job(struct gemmd_request *request, const struct answer *answer)
{
    return answer->status == 202 ? accept_taken(request, answer)
                                 : payload_take_expected(request, answer);
}

static void stored_take_shape(struct answer *answer, enum gemmd_dtype dtype, const char *type,
                              uint32_t rank, const uint64_t dims[ANSWER_MAX_RANK])
{
    answer->has_dtype = true;
    answer->dtype = dtype;
    snprintf(answer->type, sizeof answer->type, "%s",
             dtype == GEMMD_DTYPE_COUNT ? type : gemmd_dtype_name(dtype));
    answer->rank = rank;
    memcpy(answer->dims, dims, rank * sizeof dims[0]);
}

enum gemmd_error compute_conclude_stored(struct gemmd_request *request, struct answer *answer,
                                         const char *document, size_t bytes)
{
    struct gemmd_tensor tensor;
    json_t *object = json_loadb(document, bytes, JSON_REJECT_DUPLICATES, NULL);
    bool described = daemon_read_tensor(object, &tensor) && tensor.dtype != GEMMD_DTYPE_COUNT;
    json_decref(object);
    if (request->expected.rank > 0)
        stored_take_shape(answer, request->expected.dtype, request->expected.type,
                          request->expected.rank, request->expected.dims);
    else if (described)
        stored_take_shape(answer, tensor.dtype, tensor.type, tensor.rank, tensor.dims);
    else
        return failure_set(&request->error, GEMMD_ERR_PROTOCOL, NULL,
                           "the answer does not describe the tensor that was stored");
    _Static_assert(sizeof answer->etag == sizeof tensor.etag, "one length of etags");
    if (answer->etag[0] == '\0' && described)
        memcpy(answer->etag, tensor.etag, sizeof answer->etag);
    answer->put = answer->status == 201   ? GEMMD_PUT_CREATED
                  : answer->status == 412 ? GEMMD_PUT_UNCHANGED
                                          : GEMMD_PUT_REPLACED;
    return GEMMD_OK;
}

static enum gemmd_error accept_stored(struct gemmd_request *request, const struct answer *answer)
{
    if (answer->status == 202)
        return accept_taken(request, answer);
    request->expected.bytes = 0;
    return GEMMD_OK;
}

static enum gemmd_error conclude_stored(struct gemmd_request *request, struct answer *answer,
                                        const char *document, size_t bytes)
{
    return answer->status == 202 ? GEMMD_OK
                                 : compute_conclude_stored(request, answer, document, bytes);
}

static const struct exchange store_exchange = {.method = "POST",
                                               .headers = HEADERS_SEND,
                                               .sends = true,
                                               .statuses = {201, 200},
                                               .time_parameter = "timeout_ms",
                                               .time_max_ms = INT32_MAX,
                                               .accept = accept_stored,
                                               .conclude = conclude_stored};
static const struct exchange store_job_exchange = {.method = "POST",
                                                   .headers = HEADERS_SEND,
                                                   .sends = true,
                                                   .prefers_async = true,
                                                   .statuses = {202, 201, 200},
                                                   .accept = accept_stored,
                                                   .conclude = conclude_stored};

static const struct exchange *exchange_for(const struct compute *compute)
{
#define WAITED(kind)                                                                               \
    {                                                                                              \
        .method = "POST", .headers = kind, .sends = true, .statuses = {200},                       \
        .time_parameter = "timeout_ms", .time_max_ms = INT32_MAX, .accept = payload_take_expected  \
    }
#define HANDED_IN(kind)                                                                            \
    {                                                                                              \
        .method = "POST", .headers = kind, .sends = true, .prefers_async = true,                   \
        .statuses = {202, 200}, .accept = accept_job                                               \
    }
    static const struct exchange exchanges[2][2] = {
        {WAITED(HEADERS_SEND), WAITED(HEADERS_SEND_FOR_TENSORS)},
        {HANDED_IN(HEADERS_SEND), HANDED_IN(HEADERS_SEND_FOR_TENSORS)},
    };
#undef WAITED
#undef HANDED_IN
    if (compute->store != NULL)
        return compute->job ? &store_job_exchange : &store_exchange;
    return &exchanges[compute->job][compute->tensors];
}

struct gemmd_request *compute_submit(struct gemmd_client *client, const struct compute *compute,
                                     const void *asked, struct gemmd_error_info *error)
{
    struct gemmd_call call = compute->call;
    if (compute->job) /* the time to hand the job in is the client's */
        call.timeout_ms = 0;
    struct gemmd_request *request = request_new(client, exchange_for(compute), &call, error);
    if (request == NULL)
        return NULL;
    if (compute->write(request, asked, error) != GEMMD_OK) {
        gemmd_request_free(request);
        return NULL;
    }
    request->shared_memory.possible = !compute->job;
    request->shared_memory.result = compute->store == NULL ? compute->result : NULL;
    schedule_submit(request);
    return request;
}

enum gemmd_error compute_check_operand(const char *name, const void *data, const char *tensor,
                                       struct gemmd_error_info *error)
{
    if (data == NULL && tensor == NULL)
        return failure_set(error, GEMMD_ERR_USAGE, name, "%s is NULL; it must point to an operand",
                           name);
    if (data != NULL && tensor != NULL)
        return failure_set(error, GEMMD_ERR_USAGE, name,
                           "%s and %s_tensor are both set; one of them must be NULL", name, name);
    return GEMMD_OK;
}

static bool append_operand(struct body *body, const struct operand_table *table, const void *asked,
                           uint32_t operand, const void *data)
{
    struct tensor tensor;
    if (!table->shape(asked, operand, &tensor) || !body_append(body, data, tensor.bytes))
        return false;
    body->pieces[body->count - 1].name = table->operands[operand].memory_name;
    return body->bytes <= INT64_MAX;
}

enum gemmd_error compute_write_body(struct gemmd_request *request,
                                    const struct operand_table *table, const void *asked,
                                    const void *const operands[OPERAND_TABLE_MAX],
                                    const char *field, struct gemmd_error_info *error)
{
    body_init(&request->body);
    for (uint32_t i = 0; i < table->count; i++)
        if (operands[i] != NULL && !append_operand(&request->body, table, asked, i, operands[i]))
            return failure_set(error, GEMMD_ERR_USAGE, field,
                               "the operands have more than 2^63 bytes");
    return GEMMD_OK;
}

enum gemmd_error compute_expect(struct gemmd_request *request, const struct tensor *result,
                                const void *buffer, uint64_t room, const char *name,
                                struct gemmd_error_info *error)
{
    if (buffer != NULL && room < result->bytes)
        return failure_set(error, GEMMD_ERR_USAGE, name,
                           "the result takes %llu bytes and its buffer has %llu",
                           (unsigned long long)result->bytes, (unsigned long long)room);
    request->expected.rank = result->rank;
    memcpy(request->expected.dims, result->dims, result->rank * sizeof result->dims[0]);
    request->expected.dtype = result->dtype;
    request->expected.bytes = result->bytes;
    return GEMMD_OK;
}
