/* gemmctl softmax: softmax over the last axis of an array. */
#include <string.h>

#include "client/gemmctl/array_command.h"
#include "client/gemmctl/check.h"

enum { LENS, X };

static bool softmax_given(const struct softmax_request *request, const char *name)
{
    return parameter_given(&softmax_parameter_table, request, name);
}

static enum gemmd_dtype softmax_carrier(const void *argument, const struct tensor *before,
                                        uint32_t operand)
{
    const struct softmax_request *request = argument;
    (void)before;
    return operand == X
    &&softmax_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
}

static bool knows_sizes(const void *argument)
{
    return ((const struct softmax_request *)argument)->shape.rank > 0;
}

/* Lengths in raw bytes are a vector, of the first dimension of X. */
static bool softmax_raw_operand(const void *argument, const struct tensor *before, uint32_t operand,
                                struct tensor *out)
{
    struct softmax_request request = *(const struct softmax_request *)argument;
    (void)before;
    request.lens = 1;
    return softmax_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &softmax_operand_table,
    .of = "a softmax",
    .sizes = "--shape",
    .one_suffices = true,
    .carrier = softmax_carrier,
    .knows_sizes = knows_sizes,
    .raw = softmax_raw_operand,
};

static enum gemmd_error settle_residents(void *request, const struct tensor *const residents[],
                                         struct fault *fault)
{
    return softmax_request_settle_resident(request, residents[X], fault);
}

static enum gemmd_error set_random(void *argument, const uint64_t *sizes, uint32_t rank,
                                   struct fault *fault)
{
    struct softmax_request *request = argument;
    return array_command_set_shape(&request->shape, sizes, rank, fault);
}

static enum gemmd_error bind(void *request, struct tensor *operands, struct fault *fault)
{
    struct softmax_operands bound = {.lens = operands[LENS], .x = operands[X] };
    enum gemmd_error code = softmax_request_bind_tensors(request, &bound, fault);
    return code == GEMMD_OK && !bound.lens.fortran
               ? softmax_request_check_lens(request, &bound, fault)
               : code;
}

static bool softmax_result(const void *request, struct tensor *y)
{
    return softmax_request_result(request, y);
}

static struct gemmd_request *submit(struct gemmd_client *client, const struct array_call *call,
                                    struct gemmd_error_info *error)
{
    const struct softmax_request *r = call->request;
    struct gemmd_softmax softmax;
    gemmd_softmax_init(&softmax, sizeof softmax);
    softmax.dtype = r->dtype;
    softmax.out = (int32_t)r->out;
    softmax.scale = r->scale;
    softmax.log = r->log;
    softmax.rank = r->shape.rank;
    memcpy(softmax.dims, r->shape.dims, r->shape.rank * sizeof r->shape.dims[0]);
    softmax.x = call->operands[X].data;
    softmax.x_tensor = r->x[0] != '\0' ? r->x : NULL;
    softmax.lens = call->operands[LENS].data;
    softmax.lens_rank = r->lens;
    softmax.y = call->y;
    softmax.y_bytes = call->y_bytes;
    softmax.store = r->store[0] != '\0' ? r->store : NULL;
    softmax.priority = r->priority;
    softmax.timeout_ms = call->timeout_ms;
    softmax.kernel = softmax_given(r, "kernel") ? r->kernel : NULL;
    softmax.job = call->job;
    softmax.user = call->user;
    return gemmd_softmax_submit(client, &softmax, error);
}

static enum gemmd_error check_result(const struct array_call *call, struct progress_line *line,
                                     struct check *check)
{
    const struct softmax_operands operands = {
        .lens = call->operands[LENS],
        .x = call->operands[X]
    };
    return check_softmax(call->request, &operands, call->y, line, check);
}

const struct array_command softmax_command = {
    .files = &kind,
    .parameters = &softmax_parameter_table,
    .result_name = "y",
    .result_title = "Y",
    .first = X,
    .residents = 1u << X,
    .settle_residents = settle_residents,
    .set_random = set_random,
    .bind = bind,
    .result = softmax_result,
    .submit = submit,
    .check = check_result,
};

int command_softmax(const struct context *context)
{
    const char *const paths[TENSOR_FILES_MAX] = {
        [LENS] = context->arguments->values[OPTION_LENS],
        [X] = context->arguments->operands[0],
    };
    struct softmax_request request;
    softmax_request_init(&request);
    return array_command_run(context, &softmax_command, &request, paths);
}
