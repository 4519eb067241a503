/* call_reduce and call_softmax: what the operations on one array X supply to a compute
 * call (call_operation.h). */
#include "proto/dtype.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/observe/log.h"

/* Writes the shape of a request to an entry of the log, with the number of rows as m and the last
 * dimension as n. Returns the type of the operands, or GEMMD_DTYPE_COUNT if the shape is not known.
 */
static enum gemmd_dtype array_describe(const struct array_shape *shape, enum gemmd_dtype dtype,
                                       struct log_access *entry)
{
    entry->dtype = dtype_name(dtype);
    if (shape->rank == 0)
        return GEMMD_DTYPE_COUNT;
    entry->m = entry->k = entry->batch = 1;
    entry->n = shape->dims[shape->rank - 1];
    for (uint32_t i = 0; i + 1 < shape->rank; i++)
        entry->m *= shape->dims[i];
    return dtype;
}

/* ---- reductions ---- */

static void reduce_init(union call_request *request)
{
    reduce_request_init(&request->reduce);
}

static enum gemmd_error reduce_settle(union call_request *request,
                                      const struct call_residents *residents, enum format format,
                                      struct fault *fault)
{
    const enum gemmd_error code = reduce_request_settle_resident(
        &request->reduce, call_residents_tensor(residents->a), fault);
    return code == GEMMD_OK ? reduce_request_check(&request->reduce, format, fault) : code;
}

static enum gemmd_error reduce_read(union call_request *request, enum format format,
                                    struct body_front *front, union call_operands *operands,
                                    struct fault *fault)
{
    return reduce_request_bind_front(&request->reduce, format, front, &operands->reduce, fault);
}

static bool reduce_result_of(const union call_request *request, struct tensor *y,
                             struct tensor *lse)
{
    lse->rank = 0;
    return reduce_request_result(&request->reduce, y);
}

static enum gemmd_error reduce_problem_from(const union call_request *of,
                                            const struct call_residents *residents, bool has_lse,
                                            union operation_problem *problem, struct fault *fault)
{
    const struct reduce_request *request = &of->reduce;
    const struct array_shape *shape = &request->shape;
    const struct resident *x = call_residents_a(residents);
    (void)has_lse, (void)fault;
    reduce_problem_of(&problem->reduce, shape, reduce_request_axis(request),
                      x != NULL ? resident_leading(x) : shape->dims[shape->rank - 1]);
    problem->reduce.op = request->op;
    problem->reduce.dtype = request->dtype;
    problem->reduce.out = request->out;
    return GEMMD_OK;
}

static void reduce_point_residents(const struct call_residents *residents,
                                   union operation_problem *problem)
{
    if (call_residents_a(residents) != NULL)
        problem->reduce.x = resident_memory(call_residents_a(residents));
    if (residents->stored != NULL) {
        const struct tensor *y = resident_tensor(residents->stored);
        problem->reduce.y = resident_memory(residents->stored);
        problem->reduce.y_width = y->dims[y->rank - 1];
        problem->reduce.y_leading = resident_leading(residents->stored);
    }
}

static enum gemmd_dtype reduce_describe(const union call_request *request, struct log_access *entry)
{
    return array_describe(&request->reduce.shape, request->reduce.dtype, entry);
}

const struct call_operation call_reduce = {
    .result_name = "y",
    .json_model = "reduce_fp32",
    .operation = &operation_reduce,
    .operands = &reduce_operand_table,
    .parameters = &reduce_parameter_table,
    .kernel_at = offsetof(struct reduce_request, kernel),
    .timeout_at = offsetof(struct reduce_request, timeout_ms),
    .priority_at = offsetof(struct reduce_request, priority),
    .store_at = offsetof(struct reduce_request, store),
    .residents = {{"x", offsetof(struct reduce_request, x), false}},
    .init = reduce_init,
    .settle = reduce_settle,
    .read = reduce_read,
    .results = reduce_result_of,
    .problem = reduce_problem_from,
    .point_residents = reduce_point_residents,
    .describe = reduce_describe,
};

/* ---- softmax ---- */

static void softmax_init(union call_request *request)
{
    softmax_request_init(&request->softmax);
}

static enum gemmd_error softmax_settle(union call_request *request,
                                       const struct call_residents *residents, enum format format,
                                       struct fault *fault)
{
    const enum gemmd_error code = softmax_request_settle_resident(
        &request->softmax, call_residents_tensor(residents->a), fault);
    return code == GEMMD_OK ? softmax_request_check(&request->softmax, format, fault) : code;
}

static enum gemmd_error softmax_read(union call_request *request, enum format format,
                                     struct body_front *front, union call_operands *operands,
                                     struct fault *fault)
{
    return softmax_request_bind_front(&request->softmax, format, front, &operands->softmax, fault);
}

static enum gemmd_error softmax_check(const union call_request *request,
                                      const union call_operands *operands, struct fault *fault)
{
    return softmax_request_check_lens(&request->softmax, &operands->softmax, fault);
}

static bool softmax_result_of(const union call_request *request, struct tensor *y,
                              struct tensor *lse)
{
    lse->rank = 0;
    return softmax_request_result(&request->softmax, y);
}

static enum gemmd_error softmax_problem_from(const union call_request *of,
                                             const struct call_residents *residents, bool has_lse,
                                             union operation_problem *problem, struct fault *fault)
{
    static const int32_t lengths;
    const struct softmax_request *request = &of->softmax;
    (void)residents, (void)has_lse, (void)fault;
    softmax_problem_of(&problem->softmax, &request->shape, request->lens);
    problem->softmax.dtype = request->dtype;
    problem->softmax.out = request->out;
    problem->softmax.scale = request->scale;
    problem->softmax.log = request->log;
    problem->softmax.lens = request->lens > 0 ? &lengths : NULL;
    return GEMMD_OK;
}

static void softmax_point_residents(const struct call_residents *residents,
                                    union operation_problem *problem)
{
    const struct resident *x = call_residents_a(residents);
    if (x != NULL) {
        problem->softmax.x = resident_memory(x);
        problem->softmax.x_leading = resident_leading(x);
    }
    if (residents->stored != NULL) {
        problem->softmax.y = resident_memory(residents->stored);
        problem->softmax.y_leading = resident_leading(residents->stored);
    }
}

static enum gemmd_dtype softmax_describe(const union call_request *request,
                                         struct log_access *entry)
{
    return array_describe(&request->softmax.shape, request->softmax.dtype, entry);
}

const struct call_operation call_softmax = {
    .result_name = "y",
    .json_model = "softmax_fp32",
    .operation = &operation_softmax,
    .operands = &softmax_operand_table,
    .parameters = &softmax_parameter_table,
    .kernel_at = offsetof(struct softmax_request, kernel),
    .timeout_at = offsetof(struct softmax_request, timeout_ms),
    .priority_at = offsetof(struct softmax_request, priority),
    .store_at = offsetof(struct softmax_request, store),
    .residents = {{"x", offsetof(struct softmax_request, x), false}},
    .init = softmax_init,
    .settle = softmax_settle,
    .read = softmax_read,
    .check = softmax_check,
    .results = softmax_result_of,
    .problem = softmax_problem_from,
    .point_residents = softmax_point_residents,
    .describe = softmax_describe,
};
