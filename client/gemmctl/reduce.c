/* gemmctl reduce: reduces an array over one axis. */
#include <string.h>

#include "client/gemmctl/array_command.h"
#include "client/gemmctl/check.h"

enum { X };

static enum gemmd_dtype reduce_carrier(const void *argument, const struct tensor *before,
                                       uint32_t operand)
{
    const struct reduce_request *request = argument;
    (void)before;
    (void)operand;
    return parameter_given(&reduce_parameter_table, request, "dtype") ? request->dtype
                                                                      : GEMMD_DTYPE_COUNT;
}

static bool knows_sizes(const void *argument)
{
    return ((const struct reduce_request *)argument)->shape.rank > 0;
}

static bool reduce_raw_operand(const void *argument, const struct tensor *before, uint32_t operand,
                               struct tensor *out)
{
    (void)before;
    return reduce_operand_table.shape(argument, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &reduce_operand_table,
    .of = "a reduction",
    .sizes = "--shape",
    .one_suffices = true,
    .carrier = reduce_carrier,
    .knows_sizes = knows_sizes,
    .raw = reduce_raw_operand,
};

static enum gemmd_error settle_residents(void *request, const struct tensor *const residents[],
                                         struct fault *fault)
{
    return reduce_request_settle_resident(request, residents[X], fault);
}

static enum gemmd_error set_random(void *argument, const uint64_t *sizes, uint32_t rank,
                                   struct fault *fault)
{
    struct reduce_request *request = argument;
    return array_command_set_shape(&request->shape, sizes, rank, fault);
}

static enum gemmd_error bind(void *request, struct tensor *operands, struct fault *fault)
{
    struct reduce_operands bound = {.x = operands[X] };
    return reduce_request_bind_tensors(request, &bound, fault);
}

static bool reduce_result(const void *request, struct tensor *y)
{
    return reduce_request_result(request, y);
}

static struct gemmd_request *submit(struct gemmd_client *client, const struct array_call *call,
                                    struct gemmd_error_info *error)
{
    const struct reduce_request *r = call->request;
    struct gemmd_reduce reduce;
    gemmd_reduce_init(&reduce, sizeof reduce);
    reduce.op = (enum gemmd_reduce_op)r->op;
    reduce.axis = r->axis;
    reduce.keepdims = r->keepdims;
    reduce.dtype = r->dtype;
    reduce.out = (int32_t)r->out;
    reduce.rank = r->shape.rank;
    memcpy(reduce.dims, r->shape.dims, r->shape.rank * sizeof r->shape.dims[0]);
    reduce.x = call->operands[X].data;
    reduce.x_tensor = r->x[0] != '\0' ? r->x : NULL;
    reduce.y = call->y;
    reduce.y_bytes = call->y_bytes;
    reduce.store = r->store[0] != '\0' ? r->store : NULL;
    reduce.priority = r->priority;
    reduce.timeout_ms = call->timeout_ms;
    reduce.kernel = parameter_given(&reduce_parameter_table, r, "kernel") ? r->kernel : NULL;
    reduce.job = call->job;
    reduce.user = call->user;
    return gemmd_reduce_submit(client, &reduce, error);
}

static enum gemmd_error check_result(const struct array_call *call, struct progress_line *line,
                                     struct check *check)
{
    const struct reduce_operands operands = {.x = call->operands[X] };
    return check_reduce(call->request, &operands, call->y, line, check);
}

const struct array_command reduce_command = {
    .files = &kind,
    .parameters = &reduce_parameter_table,
    .result_name = "y",
    .result_title = "Y",
    .first = X,
    .residents = 1u << X,
    .settle_residents = settle_residents,
    .set_random = set_random,
    .bind = bind,
    .result = reduce_result,
    .submit = submit,
    .check = check_result,
};

int command_reduce(const struct context *context)
{
    const char *const paths[TENSOR_FILES_MAX] = { [X] = context->arguments->operands[0] };
    struct reduce_request request;
    reduce_request_init(&request);
    return array_command_run(context, &reduce_command, &request, paths);
}
