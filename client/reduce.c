#include <stdio.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/reduce_request.h"

_Static_assert((int)GEMMD_REDUCE_SUM == (int)REDUCE_SUM &&
                   (int)GEMMD_REDUCE_ARGMAX == (int)REDUCE_ARGMAX,
               "operations are proto's");

void gemmd_reduce_init(struct gemmd_reduce *reduce, size_t size)
{
    const struct gemmd_reduce defaults = {
        .axis = -1,
        .dtype = GEMMD_F32,
        .out = GEMMD_OUT_DEFAULT,
        .priority = GEMM_PRIORITY_DEFAULT,
    };
    record_write(reduce, size, &defaults, sizeof defaults);
}

static void reduce_write_parameters(struct query *query, const struct gemmd_reduce *reduce)
{
    char text[SHAPE_TEXT_BYTES];
    query_add(query, "shape", shape_text(reduce->rank, reduce->dims, text));
    query_add_choice(query, "op", (uint32_t)reduce->op);
    snprintf(text, sizeof text, "%d", (int)reduce->axis);
    query_add(query, "axis", text);
    query_add_u64_unless(query, "keepdims", (uint64_t)reduce->keepdims, 0);
    query_add_dtype(query, "dtype", (int32_t)reduce->dtype);
    if (reduce->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", reduce->out);
    query_add_if_named(query, "x", reduce->x_tensor);
    query_add_if_named(query, "store", reduce->store);
    query_add_if_named(query, "kernel", reduce->kernel);
    query_add_u64_unless(query, "priority", reduce->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (reduce->job != 0 && reduce->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", reduce->timeout_ms);
}

static enum gemmd_error reduce_write_query(const struct gemmd_reduce *reduce,
                                           struct gemmd_request *request,
                                           struct reduce_request *asked, struct fault *fault)
{
    struct query query;
    reduce_request_init(asked);
    query_begin(&query, &reduce_parameter_table, request->target, sizeof request->target, asked,
                fault);
    if (shape_check_rank(reduce->rank, fault) != GEMMD_OK)
        return fault->code;
    reduce_write_parameters(&query, reduce);
    return fault->code == GEMMD_OK ? reduce_request_check(asked, FORMAT_RAW, fault) : fault->code;
}

static enum gemmd_error reduce_describe(const struct gemmd_reduce *reduce,
                                        struct gemmd_request *request,
                                        const struct reduce_request *asked,
                                        struct gemmd_error_info *error)
{
    const void *const operands[OPERAND_TABLE_MAX] = {reduce->x};
    struct tensor y;
    enum gemmd_error code = compute_check_operand("x", reduce->x, reduce->x_tensor, error);
    if (code == GEMMD_OK)
        code = compute_write_body(request, &reduce_operand_table, asked, operands, "dims", error);
    if (code != GEMMD_OK)
        return code;
    if (!reduce_request_result(asked, &y))
        return failure_set(error, GEMMD_ERR_USAGE, "dims", "the result has more than 2^63 bytes");
    return compute_expect(request, &y, reduce->store == NULL ? reduce->y : NULL, reduce->y_bytes,
                          "y_bytes", error);
}

static enum gemmd_error reduce_write(struct gemmd_request *request, const void *argument,
                                     struct gemmd_error_info *error)
{
    const struct gemmd_reduce *reduce = argument;
    struct reduce_request asked;
    struct fault fault;
    if (reduce_write_query(reduce, request, &asked, &fault) != GEMMD_OK)
        return failure_from_fault(error, &fault);
    return reduce_describe(reduce, request, &asked, error);
}

struct gemmd_request *gemmd_reduce_submit(struct gemmd_client *client,
                                          const struct gemmd_reduce *given,
                                          struct gemmd_error_info *error)
{
    struct gemmd_reduce reduce;
    failure_clear(error);
    gemmd_reduce_init(&reduce, sizeof reduce);
    if (record_read(&reduce, sizeof reduce, given, GEMMD_REDUCE_SIZE_0_2, "reduce", "reduce",
                    error) != GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = reduce.timeout_ms,
                 .request_id = reduce.request_id,
                 .traceparent = reduce.traceparent,
                 .data = reduce.y,
                 .bytes = reduce.y_bytes,
                 .user = reduce.user},
        .job = reduce.job != 0,
        .store = reduce.store,
        .result = "y",
        .write = reduce_write,
    };
    return compute_submit(client, &compute, &reduce, error);
}

enum gemmd_error gemmd_reduce(struct gemmd_client *client, const struct gemmd_reduce *reduce,
                              struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_reduce_submit(client, reduce, error);
    return request_finish(request, result, error);
}
