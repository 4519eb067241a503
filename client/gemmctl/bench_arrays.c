/* gemmctl bench conv, bench reduce, bench softmax and bench experts: the requests that are
 * repeated. The commands conv, reduce, softmax and experts bring the parameters and the way to send
 * a request. */
#include <stdio.h>

#include "client/gemmctl/bench.h"
#include "client/gemmctl/parameters.h"
#include "client/gemmctl/report.h"

enum { DEFAULT_CHANNELS = 64, DEFAULT_IMAGE = 56, DEFAULT_FILTER = 3, DEFAULT_DIM = 1024 };
enum { DEFAULT_ROWS = 64, DEFAULT_EXPERTS = 8 };

static void use_default(uint64_t *size, uint64_t otherwise)
{
    if (*size == 0)
        *size = otherwise;
}

static void use_default_shape(struct array_shape *shape)
{
    if (shape->rank == 0)
        *shape = (struct array_shape){.rank = 2, .dims = {DEFAULT_DIM, DEFAULT_DIM}};
}

/* Sets types and shapes of the operands and the size of the result, of a request that has been
 * checked. */
static enum gemmd_error array_measure(struct bench_subject *subject,
                                      const struct array_command *command, const void *request,
                                      struct fault *fault)
{
    const struct operand_table *table = command->files->table;
    struct tensor y;
    bool fits = command->result(request, &y);
    for (uint32_t i = 0; i < table->count; i++)
        fits = fits &&
               (!table->is_wanted(request, i) || table->shape(request, i, &subject->operands[i]));
    if (!fits)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the operands or the result have more than 2^63 bytes");
    subject->result_bytes = y.bytes;
    return GEMMD_OK;
}

static void array_prepare(struct bench_subject *subject, const void *request)
{
    subject->call = (struct array_call){
        .request = request, .operands = subject->operands, .y_bytes = subject->result_bytes};
}

static struct gemmd_request *array_submit(struct bench_subject *subject,
                                          const struct array_command *command,
                                          struct gemmd_client *client, void *out, void *user,
                                          struct gemmd_error_info *error)
{
    subject->call.y = out;
    subject->call.user = user;
    return command->submit(client, &subject->call, error);
}

/* Prints "1024x1024 f32 to f32". */
static void array_print(const struct array_shape *shape, enum gemmd_dtype dtype,
                        enum gemmd_dtype out, FILE *to)
{
    char text[REPORT_SHAPE_ROOM];
    fprintf(to, "%s %s to %s", report_shape(shape->rank, shape->dims, text),
            gemmd_dtype_name(dtype), gemmd_dtype_name(out));
}

static json_t *array_describe(const char *op, const struct array_shape *shape,
                              enum gemmd_dtype dtype, enum gemmd_dtype out)
{
    json_t *dims = json_array();
    for (uint32_t i = 0; i < shape->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)shape->dims[i]));
    return json_pack("{s:s, s:o, s:s, s:s}", "op", op, "shape", dims, "dtype",
                     gemmd_dtype_name(dtype), "out", gemmd_dtype_name(out));
}

/* ---- convolutions ---- */

static enum gemmd_error conv_read(struct bench_subject *subject, const struct arguments *arguments,
                                  struct fault *fault)
{
    struct conv2d_request *r = &subject->conv;
    conv2d_request_init(r);
    enum gemmd_error code = parameters_read(r, conv_command.parameters, arguments, fault);
    use_default(&r->channels, DEFAULT_CHANNELS);
    use_default(&r->height, DEFAULT_IMAGE);
    use_default(&r->width, DEFAULT_IMAGE);
    use_default(&r->filters, DEFAULT_CHANNELS);
    use_default(&r->filter_h, DEFAULT_FILTER);
    use_default(&r->filter_w, DEFAULT_FILTER);
    if (code == GEMMD_OK)
        code = conv2d_request_check(r, FORMAT_RAW, fault);
    if (code == GEMMD_OK)
        code = array_measure(subject, &conv_command, r, fault);
    if (code == GEMMD_OK)
        subject->flops = flops_of_conv(r);
    return code;
}

static void conv_prepare(struct bench_subject *subject)
{
    array_prepare(subject, &subject->conv);
}

static struct gemmd_request *conv_submit(struct bench_subject *subject, struct gemmd_client *client,
                                         void *out, void *user, struct gemmd_error_info *error)
{
    return array_submit(subject, &conv_command, client, out, user, error);
}

static void conv_print(const struct bench_subject *subject, FILE *to)
{
    const struct conv2d_request *r = &subject->conv;
    fprintf(to, "conv       %llux%llux%llux%llu, %llu filters of %llux%llu",
            (unsigned long long)r->batch, (unsigned long long)r->channels,
            (unsigned long long)r->height, (unsigned long long)r->width,
            (unsigned long long)r->filters, (unsigned long long)r->filter_h,
            (unsigned long long)r->filter_w);
    if (r->groups > 1)
        fprintf(to, " in %llu groups", (unsigned long long)r->groups);
    fprintf(to, " %s to %s", gemmd_dtype_name(r->dtype), gemmd_dtype_name(r->out));
}

static json_t *conv_describe(const struct bench_subject *subject)
{
    const struct conv2d_request *r = &subject->conv;
    struct conv_shape s;
    struct fault fault;
    (void)conv2d_request_shape(r, &s, &fault); /* the request has been checked */
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[I, I], s:[I, I], "
        "s:[I, I, I, I], s:s, s:s, s:s}",
        "op", "conv2d", "batch", (json_int_t)s.batch, "channels", (json_int_t)s.channels, "height",
        (json_int_t)s.height, "width", (json_int_t)s.width, "filters", (json_int_t)s.filters,
        "filter_h", (json_int_t)s.r, "filter_w", (json_int_t)s.s, "groups", (json_int_t)s.groups,
        "stride", (json_int_t)s.stride_h, (json_int_t)s.stride_w, "dilation",
        (json_int_t)s.dilation_h, (json_int_t)s.dilation_w, "padding", (json_int_t)s.pad_top,
        (json_int_t)s.pad_bottom, (json_int_t)s.pad_left, (json_int_t)s.pad_right, "layout",
        parameter_choice(&conv2d_parameter_table, "layout", (uint32_t)s.layout), "dtype",
        gemmd_dtype_name(r->dtype), "out", gemmd_dtype_name(r->out));
}

const struct bench_operation bench_conv = {
    .taker = FOR_BENCH_CONV,
    .read = conv_read,
    .prepare = conv_prepare,
    .submit = conv_submit,
    .print = conv_print,
    .describe = conv_describe,
};

/* ---- reductions ---- */

static enum gemmd_error reduce_read(struct bench_subject *subject,
                                    const struct arguments *arguments, struct fault *fault)
{
    struct reduce_request *r = &subject->reduce;
    reduce_request_init(r);
    enum gemmd_error code = parameters_read(r, reduce_command.parameters, arguments, fault);
    use_default_shape(&r->shape);
    if (code == GEMMD_OK)
        code = reduce_request_check(r, FORMAT_RAW, fault);
    return code == GEMMD_OK ? array_measure(subject, &reduce_command, r, fault) : code;
}

static void reduce_prepare(struct bench_subject *subject)
{
    array_prepare(subject, &subject->reduce);
}

static struct gemmd_request *reduce_submit(struct bench_subject *subject,
                                           struct gemmd_client *client, void *out, void *user,
                                           struct gemmd_error_info *error)
{
    return array_submit(subject, &reduce_command, client, out, user, error);
}

static void reduce_print(const struct bench_subject *subject, FILE *to)
{
    const struct reduce_request *r = &subject->reduce;
    fprintf(to, "reduce     %s over axis %u of ", reduce_op_name(r->op), reduce_request_axis(r));
    array_print(&r->shape, r->dtype, r->out, to);
}

static json_t *reduce_describe(const struct bench_subject *subject)
{
    const struct reduce_request *r = &subject->reduce;
    json_t *object = array_describe("reduce", &r->shape, r->dtype, r->out);
    json_object_set_new(object, "reduction", json_string(reduce_op_name(r->op)));
    json_object_set_new(object, "axis", json_integer((json_int_t)reduce_request_axis(r)));
    return object;
}

const struct bench_operation bench_reduce = {
    .taker = FOR_BENCH_REDUCE,
    .read = reduce_read,
    .prepare = reduce_prepare,
    .submit = reduce_submit,
    .print = reduce_print,
    .describe = reduce_describe,
};

/* ---- softmaxes ---- */

static enum gemmd_error softmax_read(struct bench_subject *subject,
                                     const struct arguments *arguments, struct fault *fault)
{
    struct softmax_request *r = &subject->softmax;
    softmax_request_init(r);
    enum gemmd_error code = parameters_read(r, softmax_command.parameters, arguments, fault);
    use_default_shape(&r->shape);
    if (code == GEMMD_OK)
        code = softmax_request_check(r, FORMAT_RAW, fault);
    return code == GEMMD_OK ? array_measure(subject, &softmax_command, r, fault) : code;
}

static void softmax_prepare(struct bench_subject *subject)
{
    array_prepare(subject, &subject->softmax);
}

static struct gemmd_request *softmax_submit(struct bench_subject *subject,
                                            struct gemmd_client *client, void *out, void *user,
                                            struct gemmd_error_info *error)
{
    return array_submit(subject, &softmax_command, client, out, user, error);
}

static void softmax_print(const struct bench_subject *subject, FILE *to)
{
    const struct softmax_request *r = &subject->softmax;
    fprintf(to, "softmax    %s", r->log ? "logarithm, " : "");
    array_print(&r->shape, r->dtype, r->out, to);
}

static json_t *softmax_describe(const struct bench_subject *subject)
{
    const struct softmax_request *r = &subject->softmax;
    json_t *object = array_describe("softmax", &r->shape, r->dtype, r->out);
    json_object_set_new(object, "log", json_boolean(r->log));
    return object;
}

const struct bench_operation bench_softmax = {
    .taker = FOR_BENCH_SOFTMAX,
    .read = softmax_read,
    .prepare = softmax_prepare,
    .submit = softmax_submit,
    .print = softmax_print,
    .describe = softmax_describe,
};

/* ---- experts ---- */

static enum gemmd_error experts_read(struct bench_subject *subject,
                                     const struct arguments *arguments, struct fault *fault)
{
    struct experts_request *r = &subject->experts;
    experts_request_init(r);
    enum gemmd_error code = parameters_read(r, experts_command.parameters, arguments, fault);
    use_default(&r->m, DEFAULT_ROWS);
    use_default(&r->n, DEFAULT_DIM);
    use_default(&r->k, DEFAULT_DIM);
    use_default(&r->count, DEFAULT_EXPERTS);
    if (code == GEMMD_OK)
        code = experts_request_check(r, FORMAT_RAW, fault);
    if (code == GEMMD_OK)
        code = array_measure(subject, &experts_command, r, fault);
    if (code == GEMMD_OK)
        subject->flops = experts_command.flops(r);
    return code;
}

static void experts_prepare(struct bench_subject *subject)
{
    experts_command.choose_random(&subject->experts, subject->operands);
    array_prepare(subject, &subject->experts);
}

static struct gemmd_request *experts_submit(struct bench_subject *subject,
                                            struct gemmd_client *client, void *out, void *user,
                                            struct gemmd_error_info *error)
{
    return array_submit(subject, &experts_command, client, out, user, error);
}

static void experts_print(const struct bench_subject *subject, FILE *to)
{
    const struct experts_request *r = &subject->experts;
    fprintf(to, "experts    %llux%llux%llu, %llu of %llu experts a row%s, %s to %s",
            (unsigned long long)r->m, (unsigned long long)r->n, (unsigned long long)r->k,
            (unsigned long long)r->topk, (unsigned long long)r->count, r->glu ? " with gates" : "",
            gemmd_dtype_name(r->dtype), gemmd_dtype_name(r->out));
}

static json_t *experts_describe(const struct bench_subject *subject)
{
    const struct experts_request *r = &subject->experts;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:s}", "op", "experts", "m",
                     (json_int_t)r->m, "n", (json_int_t)r->n, "k", (json_int_t)r->k, "count",
                     (json_int_t)r->count, "topk", (json_int_t)r->topk, "glu", (int)r->glu, "dtype",
                     gemmd_dtype_name(r->dtype), "out", gemmd_dtype_name(r->out));
}

const struct bench_operation bench_experts = {
    .taker = FOR_BENCH_EXPERTS,
    .read = experts_read,
    .prepare = experts_prepare,
    .submit = experts_submit,
    .print = experts_print,
    .describe = experts_describe,
};
