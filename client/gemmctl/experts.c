/* gemmctl experts: rows times the experts of a stack. */
#include "client/gemmctl/array_command.h"
#include "client/gemmctl/parameters.h"
#include "proto/experts_request.h"

enum { A, W, EXPERTS, WEIGHTS, BIAS };

static bool experts_given(const struct experts_request *request, const char *name)
{
    return parameter_given(&experts_parameter_table, request, name);
}

static enum gemmd_dtype experts_carrier(const void *argument, const struct tensor *before,
                                        uint32_t operand)
{
    const struct experts_request *request = argument;
    const enum gemmd_dtype dtype =
        experts_given(request, "dtype") ? request->dtype : GEMMD_DTYPE_COUNT;
    if (operand == BIAS)
        return experts_given(request, "out") ? request->out
               : before[A].rank > 0          ? before[A].dtype
                                             : request->dtype;
    return operand == A || operand == W ? dtype : GEMMD_DTYPE_COUNT;
}

static bool knows_sizes(const void *argument)
{
    const struct experts_request *r = argument;
    return r->m != 0 && r->n != 0 && r->k != 0 && r->count != 0;
}

static bool experts_raw_operand(const void *argument, const struct tensor *before, uint32_t operand,
                                struct tensor *out)
{
    struct experts_request request = *(const struct experts_request *)argument;
    (void)before;
    /* A contradiction between parameters is refused later, when all operands are known. */
    (void)experts_request_check(&request, FORMAT_RAW, &(struct fault){0});
    return experts_operand_table.shape(&request, operand, out);
}

static const struct tensor_files_kind kind = {
    .table = &experts_operand_table,
    .of = "experts",
    .sizes = "--m, --n, --k and --count",
    .carrier = experts_carrier,
    .knows_sizes = knows_sizes,
    .raw = experts_raw_operand,
};

static enum gemmd_error settle_residents(void *request, const struct tensor *const residents[],
                                         struct fault *fault)
{
    return experts_request_settle_residents(request, residents[A], residents[W], fault);
}

static enum gemmd_error set_random(void *argument, const uint64_t *sizes, uint32_t rank,
                                   struct fault *fault)
{
    struct experts_request *r = argument;
    if (rank != 2)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random must be the two sizes of A, rows and columns, such as 64x512");
    if (r->m != 0 || r->k != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets the sizes of A; leave out --m and --k");
    if (r->n == 0 || r->count == 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "--random sets the sizes of A; give those of W by --n and --count");
    r->m = sizes[0];
    r->k = sizes[1];
    return experts_request_check(r, FORMAT_RAW, fault);
}

/* Makes numbers of experts of random integers. */
static void choose_random(const void *argument, struct tensor *operands)
{
    const struct experts_request *request = argument;
    int32_t *numbers = (int32_t *)operands[EXPERTS].data;
    for (uint64_t i = 0; i < operands[EXPERTS].bytes / sizeof *numbers; i++)
        numbers[i] = (int32_t)((uint32_t)numbers[i] % request->count);
}

static struct experts_operands operands_of(const struct tensor *operands)
{
    return (struct experts_operands){.a = operands[A],
                                     .w = operands[W],
                                     .experts = operands[EXPERTS],
                                     .weights = operands[WEIGHTS],
                                     .bias = operands[BIAS]};
}

static enum gemmd_error bind(void *request, struct tensor *operands, struct fault *fault)
{
    struct experts_operands bound = operands_of(operands);
    const enum gemmd_error code = experts_request_bind_tensors(request, &bound, fault);
    operands[EXPERTS].fortran = bound.experts.fortran;
    operands[WEIGHTS].fortran = bound.weights.fortran;
    return code == GEMMD_OK && !bound.experts.fortran
               ? experts_request_check_numbers(request, &bound, fault)
               : code;
}

static bool experts_result(const void *request, struct tensor *c)
{
    return experts_request_result(request, c);
}

static struct gemmd_request *submit(struct gemmd_client *client, const struct array_call *call,
                                    struct gemmd_error_info *error)
{
    const struct experts_request *r = call->request;
    struct gemmd_experts experts;
    gemmd_experts_init(&experts, sizeof experts);
    experts.m = r->m;
    experts.n = r->n;
    experts.k = r->k;
    experts.count = r->count;
    experts.topk = r->topk;
    experts.dtype = r->dtype;
    experts.out = (int32_t)r->out;
    experts.transb = r->transb;
    experts.glu = r->glu;
    experts.precision = (enum gemmd_precision)r->precision;
    experts.act = (enum gemmd_act)r->act;
    experts.a = call->operands[A].data;
    experts.w = call->operands[W].data;
    experts.experts = call->operands[EXPERTS].data;
    experts.weights = call->operands[WEIGHTS].data;
    experts.bias = call->operands[BIAS].data;
    experts.a_tensor = r->a[0] != '\0' ? r->a : NULL;
    experts.w_tensor = r->w[0] != '\0' ? r->w : NULL;
    experts.c = call->y;
    experts.c_bytes = call->y_bytes;
    experts.store = r->store[0] != '\0' ? r->store : NULL;
    experts.priority = r->priority;
    experts.timeout_ms = call->timeout_ms;
    experts.kernel = experts_given(r, "kernel") ? r->kernel : NULL;
    experts.job = call->job;
    experts.user = call->user;
    return gemmd_experts_submit(client, &experts, error);
}

static double flops(const void *argument)
{
    const struct experts_request *r = argument;
    return 2.0 * (double)r->m * (double)r->topk * (double)experts_request_columns(r) * (double)r->k;
}

const struct array_command experts_command = {
    .files = &kind,
    .parameters = &experts_parameter_table,
    .result_name = "c",
    .result_title = "C",
    .first = A,
    .residents = 1u << A | 1u << W,
    .settle_residents = settle_residents,
    .set_random = set_random,
    .choose_random = choose_random,
    .bind = bind,
    .result = experts_result,
    .submit = submit,
    .flops = flops,
};

int command_experts(const struct context *context)
{
    const struct arguments *arguments = context->arguments;
    const char *const paths[TENSOR_FILES_MAX] = {
        [A] = arguments->operands[0],
        [W] = arguments->operand_count > 1 ? arguments->operands[1] : NULL,
        [EXPERTS] = arguments->operand_count > 2 ? arguments->operands[2] : NULL,
        [WEIGHTS] = arguments->values[OPTION_WEIGHTS],
        [BIAS] = arguments->values[OPTION_BIAS],
    };
    struct experts_request request;
    experts_request_init(&request);
    return array_command_run(context, &experts_command, &request, paths);
}
