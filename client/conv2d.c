#include <inttypes.h>
#include <stdio.h>

#include "client/client.h"
#include "client/compute.h"
#include "client/failure.h"
#include "client/query.h"
#include "client/record.h"
#include "proto/conv2d_request.h"

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

_Static_assert((int)GEMMD_CONV_NCHW == (int)CONV_NCHW && (int)GEMMD_CONV_NHWC == (int)CONV_NHWC &&
                   (int)GEMMD_CONV_KCRS == (int)CONV_KCRS && (int)GEMMD_CONV_KRSC == (int)CONV_KRSC,
               "layouts are proto's");

static void add_pair(struct query *query, const char *name, uint64_t h, uint64_t w)
{
    char text[48];
    snprintf(text, sizeof text, "%" PRIu64 ",%" PRIu64, h, w);
    if (h != 1 || w != 1)
        query_add(query, name, text);
}

static void add_padding(struct query *query, const struct gemmd_conv2d *c)
{
    char text[96];
    snprintf(text, sizeof text, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, c->pad_top,
             c->pad_bottom, c->pad_left, c->pad_right);
    if (c->pad_same != 0)
        query_add(query, "padding", "same");
    else if ((c->pad_top | c->pad_bottom | c->pad_left | c->pad_right) != 0)
        query_add(query, "padding", text);
}

static void conv2d_write_parameters(struct query *query, const struct gemmd_conv2d *c)
{
    query_add_u64_unless(query, "batch", c->batch, 1);
    query_add_u64(query, "channels", c->channels);
    query_add_u64(query, "height", c->height);
    query_add_u64(query, "width", c->width);
    query_add_u64(query, "filters", c->filters);
    query_add_u64(query, "filter_h", c->r);
    query_add_u64(query, "filter_w", c->s);
    query_add_u64_unless(query, "groups", c->groups, 1);
    add_pair(query, "stride", c->stride_h, c->stride_w);
    add_pair(query, "dilation", c->dilation_h, c->dilation_w);
    add_padding(query, c);
    query_add_choice_unless(query, "layout", (uint32_t)c->layout, GEMMD_CONV_NCHW);
    query_add_choice_unless(query, "w_layout", (uint32_t)c->w_layout, GEMMD_CONV_KCRS);
    query_add_dtype(query, "dtype", (int32_t)c->dtype);
    if (c->out != GEMMD_OUT_DEFAULT)
        query_add_dtype(query, "out", c->out);
    query_add_choice_unless(query, "precision", (uint32_t)c->precision, GEMMD_PRECISION_FULL);
    query_add_f64_unless(query, "alpha", c->alpha, 1);
    if (c->bias != NULL)
        query_add_u64(query, "bias", 1);
    query_add_choice_unless(query, "act", (uint32_t)c->act, GEMMD_ACT_NONE);
    query_add_if_named(query, "x", c->x_tensor);
    query_add_if_named(query, "w", c->w_tensor);
    query_add_if_named(query, "store", c->store);
    query_add_if_named(query, "kernel", c->kernel);
    query_add_u64_unless(query, "priority", c->priority, GEMM_PRIORITY_DEFAULT);
    /* A job's deadline is part of the query. For every other request each attempt sends the time
     * that is left (transfer.c). */
    if (c->job != 0 && c->timeout_ms != 0)
        query_add_u64(query, "timeout_ms", c->timeout_ms);
}

static enum gemmd_error conv2d_query_write(const struct gemmd_conv2d *conv2d, char *out,
                                           size_t room, struct conv2d_request *asked,
                                           struct fault *fault)
{
    struct query query;
    conv2d_request_init(asked);
    query_begin(&query, &conv2d_parameter_table, out, room, asked, fault);
    conv2d_write_parameters(&query, conv2d);
    return fault->code == GEMMD_OK ? conv2d_request_check(asked, FORMAT_RAW, fault) : fault->code;
}

static enum gemmd_error conv2d_write(struct gemmd_request *request, const void *argument,
                                     struct gemmd_error_info *error)
{
    const struct gemmd_conv2d *conv2d = argument;
    const void *const operands[OPERAND_TABLE_MAX] = {conv2d->x, conv2d->w, conv2d->bias};
    struct conv2d_request asked;
    struct fault fault;
    struct tensor y;
    if (conv2d_query_write(conv2d, request->target, sizeof request->target, &asked, &fault) !=
        GEMMD_OK)
        return failure_from_fault(error, &fault);
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
    if (record_read(&conv2d, sizeof conv2d, given, GEMMD_CONV2D_SIZE_0_2, "conv2d", "conv2d",
                    error) != GEMMD_OK)
        return NULL;
    const struct compute compute = {
        .call = {.timeout_ms = conv2d.timeout_ms,
                 .request_id = conv2d.request_id,
                 .traceparent = conv2d.traceparent,
                 .data = conv2d.y,
                 .bytes = conv2d.y_bytes,
                 .user = conv2d.user},
        .job = conv2d.job != 0,
        .store = conv2d.store,
        .result = "y",
        .write = conv2d_write,
    };
    return compute_submit(client, &compute, &conv2d, error);
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
