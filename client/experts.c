#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/experts_request.h"

void gemmd_experts_init(struct gemmd_experts *experts, size_t size)
{
    const struct gemmd_experts defaults = {
        .topk = 1,
        .dtype = GEMMD_F32,
        .out = GEMMD_OUT_DEFAULT,
        .priority = GEMM_PRIORITY_DEFAULT,
    };
    record_write(experts, size, &defaults, sizeof defaults);
}

static void experts_write_parameters(struct query *query, const struct gemmd_experts *e)
{
    query_add_u64(query, "m", e->m);
    query_add_u64(query, "n", e->n);
    query_add_u64(query, "k", e->k);
    query_add_u64(query, "count", e->count);
    query_add_u64_unless(query, "topk", e->topk, 1);
    query_add_dtype(query, "dtype", (int32_t)e->dtype);
    if (e->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", e->out);
    query_add_u64_unless(query, "transb", (uint64_t)e->transb, 0);
    query_add_u64_unless(query, "glu", (uint64_t)e->glu, 0);
    query_add_choice_unless(query, "precision", (uint32_t)e->precision, GEMMD_PRECISION_FULL);
    query_add_choice_unless(query, "act", (uint32_t)e->act, GEMMD_ACT_NONE);
    if (e->weights != NULL)
        query_add_u64(query, "weights", 1);
    if (e->bias != NULL)
        query_add_u64(query, "bias", 1);
    query_add_if_named(query, "a", e->a_tensor);
    query_add_if_named(query, "w", e->w_tensor);
    query_add_if_named(query, "store", e->store);
    query_add_if_named(query, "kernel", e->kernel);
    query_add_u64_unless(query, "priority", e->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (e->job != 0 && e->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", e->timeout_ms);
}

static enum gemmd_error experts_write(struct gemmd_request *request, const void *argument,
                                      struct gemmd_error_info *error)
{
    const struct gemmd_experts *e = argument;
    const void *const operands[OPERAND_TABLE_MAX] = {e->a, e->w, e->experts, e->weights, e->bias};
    struct experts_request asked;
    struct fault fault;
    struct query query;
    struct tensor c;
    experts_request_init(&asked);
    query_begin(&query, &experts_parameter_table, request->target, sizeof request->target, &asked,
                &fault);
    experts_write_parameters(&query, e);
    if (fault.code != GEMMD_OK || experts_request_check(&asked, FORMAT_RAW, &fault) != GEMMD_OK)
        return failure_from_fault(error, &fault);
    enum gemmd_error code = compute_check_operand("a", e->a, e->a_tensor, error);
    if (code == GEMMD_OK)
        code = compute_check_operand("w", e->w, e->w_tensor, error);
    if (code == GEMMD_OK)
        code = compute_check_operand("experts", e->experts, NULL, error);
    if (code == GEMMD_OK)
        code = compute_write_body(request, &experts_operand_table, &asked, operands, "m", error);
    if (code == GEMMD_OK && !experts_request_result(&asked, &c))
        code = failure_set(error, GEMMD_ERR_USAGE, "m", "the result has more than 2^63 bytes");
    if (code == GEMMD_OK)
        code = compute_expect(request, &c, e->store == NULL ? e->c : NULL, e->c_bytes, "c_bytes",
                              error);
    return code;
}

struct gemmd_request *gemmd_experts_submit(struct gemmd_client *client,
                                           const struct gemmd_experts *given,
                                           struct gemmd_error_info *error)
{
    struct gemmd_experts experts;
    failure_clear(error);
    gemmd_experts_init(&experts, sizeof experts);
    if (record_read(&experts, sizeof experts, given, GEMMD_EXPERTS_SIZE_0_2, "experts", "experts",
                    error) != GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = experts.timeout_ms,
                 .request_id = experts.request_id,
                 .traceparent = experts.traceparent,
                 .data = experts.c,
                 .bytes = experts.c_bytes,
                 .user = experts.user},
        .job = experts.job != 0,
        .store = experts.store,
        .result = "c",
        .write = experts_write,
    };
    return compute_submit(client, &compute, &experts, error);
}

enum gemmd_error gemmd_experts(struct gemmd_client *client, const struct gemmd_experts *experts,
                               struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_experts_submit(client, experts, error);
    return request_finish(request, result, error);
}
