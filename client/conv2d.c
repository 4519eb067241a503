#include "client/compute.h"
#include "client/conv2d_query.h"
#include "client/failure.h"
#include "client/record.h"
#include "client/schedule.h"
#include "client/stored.h"

void gemmd_conv2d_init(struct gemmd_conv2d *conv2d, size_t size)
{
    const struct gemmd_conv2d defaults = {
        .batch = 1,
        .groups = 1,
        .stride_h = 1,
        .stride_w = 1,
        .dilation_h = 1,
        .dilation_w = 1,
        .dtype = GEMMD_F32,
        .out = GEMMD_OUT_DEFAULT,
        .priority = GEMM_PRIORITY_DEFAULT,
        .alpha = 1,
    };
    record_write(conv2d, size, &defaults, sizeof defaults);
}

/* Writes the request's target, body and expected result. */
static enum gemmd_error conv2d_write_request(struct gemmd_request *request,
                                             const struct gemmd_conv2d *conv2d,
                                             struct gemmd_error_info *error)
{
    const void *const operands[OPERAND_TABLE_MAX] = {conv2d->x, conv2d->w, conv2d->bias};
    struct conv2d_request asked;
    struct fault fault;
    struct tensor y;
    if (conv2d_query_write(conv2d, request->target, sizeof request->target, &asked, &fault) !=
        GEMMD_OK) {
        failure_from_fault(error, &fault);
        return fault.code;
    }
    enum gemmd_error code = compute_check_operand("x", conv2d->x, conv2d->x_tensor, error);
    if (code == GEMMD_OK)
        code = compute_check_operand("w", conv2d->w, conv2d->w_tensor, error);
    if (code == GEMMD_OK)
        code = compute_write_body(request, &conv2d_operand_table, &asked, operands, "batch", error);
    if (code == GEMMD_OK && !conv2d_request_result(&asked, &y))
        code = failure_set(error, GEMMD_ERR_USAGE, "batch", "the result has more than 2^63 bytes");
    if (code == GEMMD_OK)
        code = compute_expect(request, &y, conv2d->store == NULL ? conv2d->y : NULL,
                              conv2d->y_bytes, "y_bytes", error);
    return code;
}

struct gemmd_request *gemmd_conv2d_submit(struct gemmd_client *client,
                                          const struct gemmd_conv2d *given,
                                          struct gemmd_error_info *error)
{
    struct gemmd_conv2d conv2d;
    failure_clear(error);
    gemmd_conv2d_init(&conv2d, sizeof conv2d);
    if (!record_read(&conv2d, sizeof conv2d, given, given->size, GEMMD_CONV2D_SIZE_0_2)) {
        failure_set(error, GEMMD_ERR_USAGE, "size",
                    "the size of struct gemmd_conv2d is not one that libgemmd %s knows; use "
                    "gemmd_conv2d_init(&conv2d, sizeof conv2d)",
                    gemmd_version());
        return NULL;
    }
    const struct gemmd_call call = {
        /* `timeout_ms` is the job's deadline, not the deadline of the request that hands the job
           in. */
        .timeout_ms = conv2d.job != 0 ? 0 : conv2d.timeout_ms,
        .request_id = conv2d.request_id,
        .traceparent = conv2d.traceparent,
        .data = conv2d.y,
        .bytes = conv2d.y_bytes,
        .user = conv2d.user,
    };
    struct gemmd_request *request =
        request_new(client,
                    conv2d.store == NULL ? compute_operation(conv2d.job != 0, false)
                                         : stored_operation(conv2d.job != 0),
                    &call, error);
    if (request == NULL)
        return NULL;
    if (conv2d_write_request(request, &conv2d, error) != GEMMD_OK) {
        gemmd_request_free(request);
        return NULL;
    }
    request->shared_memory.possible = conv2d.job == 0;
    request->shared_memory.result = conv2d.store == NULL ? "y" : NULL;
    schedule_submit(request);
    return request;
}

enum gemmd_error gemmd_conv2d(struct gemmd_client *client, const struct gemmd_conv2d *conv2d,
                              struct gemmd_result *result, struct gemmd_error_info *error)
{
    struct gemmd_error_info local;
    if (error == NULL)
        error = &local;
    struct gemmd_request *request = gemmd_conv2d_submit(client, conv2d, error);
    return request_finish(request, result, error);
}
