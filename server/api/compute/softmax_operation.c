/* softmax_operation: the functions and tables of compute_call.h for softmaxes. */
#include "proto/body_front.h"
#include "server/api/compute/array_call.h"
#include "server/api/services.h"

static void softmax_init(struct compute_call *call)
{
    softmax_request_init(&call->request.softmax);
}

static enum gemmd_error softmax_settle(struct compute_call *call, struct services *services,
                                       const char *tenant, struct fault *fault)
{
    struct softmax_request *request = &call->request.softmax;
    enum gemmd_error code = array_call_acquire(call, request->x, services, tenant, fault);
    if (code == GEMMD_OK)
        code = softmax_request_settle_resident(request, call_residents_tensor(call->residents.a),
                                               fault);
    if (code == GEMMD_OK)
        code = softmax_request_check(request, call->body_format, fault);
    call->timeout_ms = request->timeout_ms;
    call->priority = request->priority;
    return code;
}

static enum gemmd_error softmax_read(struct compute_call *call, struct body_front *front,
                                     union call_operands *operands, struct fault *fault)
{
    return softmax_request_bind_front(&call->request.softmax, call->body_format, front,
                                      &operands->softmax, fault);
}

static bool softmax_result(struct compute_call *call)
{
    if (!softmax_request_result(&call->request.softmax, &call->c))
        return false;
    call->result_bytes = call->client_memory.result.wanted ? 0 : call->c.bytes;
    return true;
}

static void softmax_point_residents(const struct call_residents *residents, struct work *work)
{
    struct softmax_problem *problem = &work->task.problem.softmax;
    if (call_residents_a(residents) != NULL)
        problem->x = resident_memory(call_residents_a(residents));
    if (residents->stored != NULL) {
        problem->y = resident_memory(residents->stored);
        problem->y_leading = resident_leading(residents->stored);
    }
}

/* The lengths are not located yet; the pointer only says whether there are any. */
static enum gemmd_error softmax_choose(struct compute_call *call, struct services *services,
                                       struct fault *fault)
{
    static const int32_t lengths;
    const struct softmax_request *request = &call->request.softmax;
    struct work *work = &call->work;
    struct softmax_problem *problem = &work->task.problem.softmax;
    (void)services;
    work->task.operation = &operation_softmax;
    softmax_problem_of(problem, &request->shape, request->lens);
    problem->dtype = request->dtype;
    problem->out = request->out;
    problem->scale = request->scale;
    problem->log = request->log;
    problem->lens = request->lens > 0 ? &lengths : NULL;
    problem->x_leading = array_call_leading(&call->residents, problem->length);
    softmax_point_residents(&call->residents, work);
    return array_call_plan(call, request->kernel, fault);
}

static void softmax_point_result(struct compute_call *call, unsigned char *payload)
{
    if (call->client_memory.result.wanted)
        payload = call->client_memory.result.at;
    call->c.data = payload;
    call->work.task.problem.softmax.y = payload;
}

static void softmax_point(struct compute_call *call, const union call_operands *operands)
{
    struct softmax_problem *problem = &call->work.task.problem.softmax;
    if (operands->softmax.lens.rank > 0 && operands->softmax.lens.data != NULL)
        problem->lens = operands->softmax.lens.data;
    if (operands->softmax.x.rank > 0 && operands->softmax.x.data != NULL)
        problem->x = operands->softmax.x.data;
}

static enum gemmd_error softmax_check(struct compute_call *call,
                                      const union call_operands *operands, struct fault *fault)
{
    return softmax_request_check_lens(&call->request.softmax, &operands->softmax, fault);
}

static const char *softmax_store_name(const union call_request *request)
{
    return request->softmax.store;
}

static enum gemmd_dtype softmax_describe(const union call_request *request,
                                         struct log_access *entry)
{
    return array_call_describe(&request->softmax.shape, request->softmax.dtype, entry);
}

const struct call_operation softmax_operation = {
    .name = "softmax",
    .result_name = "y",
    .json_model = "softmax_fp32",
    .operands = &softmax_operand_table,
    .parameters = &softmax_parameter_table,
    .store = softmax_store_name,
    .init = softmax_init,
    .settle = softmax_settle,
    .read = softmax_read,
    .result = softmax_result,
    .choose = softmax_choose,
    .header = array_call_header,
    .point_result = softmax_point_result,
    .point = softmax_point,
    .point_residents = softmax_point_residents,
    .describe = softmax_describe,
    .check = softmax_check,
};
