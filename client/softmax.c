#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/softmax_request.h"

void gemmd_softmax_init(struct gemmd_softmax *softmax, size_t size)
{
    const struct gemmd_softmax defaults = {
        .dtype = GEMMD_F32,
        .out = GEMMD_OUT_DEFAULT,
        .scale = 1,
        .priority = GEMM_PRIORITY_DEFAULT,
    };
    record_write(softmax, size, &defaults, sizeof defaults);
}

static void softmax_write_parameters(struct query *query, const struct gemmd_softmax *softmax)
{
    char text[SHAPE_TEXT_BYTES];
    query_add(query, "shape", shape_text(softmax->rank, softmax->dims, text));
    query_add_dtype(query, "dtype", (int32_t)softmax->dtype);
    if (softmax->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", softmax->out);
    query_add_f64_unless(query, "scale", softmax->scale, 1);
    query_add_u64_unless(query, "log", (uint64_t)softmax->log, 0);
    query_add_u64_unless(query, "lens", softmax->lens_rank, 0);
    query_add_if_named(query, "x", softmax->x_tensor);
    query_add_if_named(query, "store", softmax->store);
    query_add_if_named(query, "kernel", softmax->kernel);
    query_add_u64_unless(query, "priority", softmax->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (softmax->job != 0 && softmax->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", softmax->timeout_ms);
}

static enum gemmd_error softmax_write_query(const struct gemmd_softmax *softmax,
                                            struct gemmd_request *request,
                                            struct softmax_request *asked, struct fault *fault)
{
    struct query query;
    softmax_request_init(asked);
    query_begin(&query, &softmax_parameter_table, request->target, sizeof request->target, asked,
                fault);
    if (shape_check_rank(softmax->rank, fault) != GEMMD_OK)
        return fault->code;
    softmax_write_parameters(&query, softmax);
    return fault->code == GEMMD_OK ? softmax_request_check(asked, FORMAT_RAW, fault) : fault->code;
}

static enum gemmd_error softmax_describe(const struct gemmd_softmax *softmax,
                                         struct gemmd_request *request,
                                         const struct softmax_request *asked,
                                         struct gemmd_error_info *error)
{
    const void *const operands[OPERAND_TABLE_MAX] = {softmax->lens, softmax->x};
    struct tensor y;
    if ((softmax->lens != NULL) != (softmax->lens_rank != 0))
        return failure_set(error, GEMMD_ERR_USAGE, "lens_rank",
                           "one of lens and lens_rank is 0; set both or neither");
    enum gemmd_error code = compute_check_operand("x", softmax->x, softmax->x_tensor, error);
    if (code == GEMMD_OK)
        code = compute_write_body(request, &softmax_operand_table, asked, operands, "dims", error);
    if (code != GEMMD_OK)
        return code;
    if (!softmax_request_result(asked, &y))
        return failure_set(error, GEMMD_ERR_USAGE, "dims", "the result has more than 2^63 bytes");
    return compute_expect(request, &y, softmax->store == NULL ? softmax->y : NULL, softmax->y_bytes,
                          "y_bytes", error);
}

static enum gemmd_error softmax_write(struct gemmd_request *request, const void *argument,
                                      struct gemmd_error_info *error)
{
    const struct gemmd_softmax *softmax = argument;
    struct softmax_request asked;
    struct fault fault;
    if (softmax_write_query(softmax, request, &asked, &fault) != GEMMD_OK)
        return failure_from_fault(error, &fault);
    return softmax_describe(softmax, request, &asked, error);
}

struct gemmd_request *gemmd_softmax_submit(struct gemmd_client *client,
                                           const struct gemmd_softmax *given,
                                           struct gemmd_error_info *error)
{
    struct gemmd_softmax softmax;
    failure_clear(error);
    gemmd_softmax_init(&softmax, sizeof softmax);
    if (record_read(&softmax, sizeof softmax, given, GEMMD_SOFTMAX_SIZE_0_2, "softmax", "softmax",
                    error) != GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = softmax.timeout_ms,
                 .request_id = softmax.request_id,
                 .traceparent = softmax.traceparent,
                 .data = softmax.y,
                 .bytes = softmax.y_bytes,
                 .user = softmax.user},
        .job = softmax.job != 0,
        .store = softmax.store,
        .result = "y",
        .write = softmax_write,
    };
    return compute_submit(client, &compute, &softmax, error);
}

enum gemmd_error gemmd_softmax(struct gemmd_client *client, const struct gemmd_softmax *softmax,
                               struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_softmax_submit(client, softmax, error);
    return request_finish(request, result, error);
}
