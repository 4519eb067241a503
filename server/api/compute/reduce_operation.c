/* reduce_operation: the functions and tables of compute_call.h for reductions. */
#include "proto/body_front.h"
#include "server/api/compute/array_call.h"
#include "server/api/services.h"

static void reduce_init(struct compute_call *call)
{
    reduce_request_init(&call->request.reduce);
}

static enum gemmd_error reduce_settle(struct compute_call *call, struct services *services,
                                      const char *tenant, struct fault *fault)
{
    struct reduce_request *request = &call->request.reduce;
    enum gemmd_error code = array_call_acquire(call, request->x, services, tenant, fault);
    if (code == GEMMD_OK)
        code = reduce_request_settle_resident(request, call_residents_tensor(call->residents.a),
                                              fault);
    if (code == GEMMD_OK)
        code = reduce_request_check(request, call->body_format, fault);
    call->timeout_ms = request->timeout_ms;
    call->priority = request->priority;
    return code;
}

static enum gemmd_error reduce_read(struct compute_call *call, struct body_front *front,
                                    union call_operands *operands, struct fault *fault)
{
    return reduce_request_bind_front(&call->request.reduce, call->body_format, front,
                                     &operands->reduce, fault);
}

static bool reduce_result(struct compute_call *call)
{
    if (!reduce_request_result(&call->request.reduce, &call->c))
        return false;
    call->result_bytes = call->client_memory.result.wanted ? 0 : call->c.bytes;
    return true;
}

static void reduce_point_residents(const struct call_residents *residents, struct work *work)
{
    struct reduce_problem *problem = &work->task.problem.reduce;
    if (call_residents_a(residents) != NULL)
        problem->x = resident_memory(call_residents_a(residents));
    if (residents->stored != NULL) {
        const struct tensor *y = resident_tensor(residents->stored);
        problem->y = resident_memory(residents->stored);
        problem->y_width = y->dims[y->rank - 1];
        problem->y_leading = resident_leading(residents->stored);
    }
}

static enum gemmd_error reduce_choose(struct compute_call *call, struct services *services,
                                      struct fault *fault)
{
    const struct reduce_request *request = &call->request.reduce;
    const struct array_shape *shape = &request->shape;
    struct work *work = &call->work;
    struct reduce_problem *problem = &work->task.problem.reduce;
    (void)services;
    work->task.operation = &operation_reduce;
    reduce_problem_of(problem, shape, reduce_request_axis(request),
                      array_call_leading(&call->residents, shape->dims[shape->rank - 1]));
    problem->op = request->op;
    problem->dtype = request->dtype;
    problem->out = request->out;
    reduce_point_residents(&call->residents, work);
    return array_call_plan(call, request->kernel, fault);
}

static void reduce_point_result(struct compute_call *call, unsigned char *payload)
{
    if (call->client_memory.result.wanted)
        payload = call->client_memory.result.at;
    call->c.data = payload;
    call->work.task.problem.reduce.y = payload;
}

static void reduce_point(struct compute_call *call, const union call_operands *operands)
{
    if (operands->reduce.x.rank > 0 && operands->reduce.x.data != NULL)
        call->work.task.problem.reduce.x = operands->reduce.x.data;
}

static const char *reduce_store_name(const union call_request *request)
{
    return request->reduce.store;
}

static enum gemmd_dtype reduce_describe(const union call_request *request, struct log_access *entry)
{
    return array_call_describe(&request->reduce.shape, request->reduce.dtype, entry);
}

const struct call_operation reduce_operation = {
    .name = "reduce",
    .result_name = "y",
    .json_model = "reduce_fp32",
    .operands = &reduce_operand_table,
    .parameters = &reduce_parameter_table,
    .store = reduce_store_name,
    .init = reduce_init,
    .settle = reduce_settle,
    .read = reduce_read,
    .result = reduce_result,
    .choose = reduce_choose,
    .header = array_call_header,
    .point_result = reduce_point_result,
    .point = reduce_point,
    .point_residents = reduce_point_residents,
    .describe = reduce_describe,
};
