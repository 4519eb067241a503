/* conv2d_operation: the functions and tables of compute_call.h for convolutions. */
#include <inttypes.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/body_front.h"
#include "proto/dtype.h"
#include "server/api/compute/array_call.h"
#include "server/api/services.h"

static void conv2d_init(struct compute_call *call)
{
    conv2d_request_init(&call->request.conv2d);
}

/* Refuses a resident X with gaps between its rows, which the kernels cannot read. A Y that was
 * stored has no gaps. */
static enum gemmd_error check_resident_x(const struct resident *x, struct fault *fault)
{
    const struct tensor *tensor = call_residents_tensor(x);
    if (tensor == NULL || resident_leading(x) == tensor->dims[tensor->rank - 1])
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "x",
                     "the device keeps the rows of '%.128s' apart, %" PRIu64
                     " elements for %" PRIu64
                     "; upload it with contiguous=1, or use one that /conv2d has stored",
                     resident_name(x), resident_leading(x), tensor->dims[tensor->rank - 1]);
}

static enum gemmd_error conv2d_settle(struct compute_call *call, struct services *services,
                                      const char *tenant, struct fault *fault)
{
    struct conv2d_request *request = &call->request.conv2d;
    struct call_residents *residents = &call->residents;
    /* A layer of the inference protocol has its W already. */
    const struct resident_name w = {"w", residents->b == NULL ? request->w : ""};
    enum gemmd_error code = call_residents_acquire(
        residents, (struct resident_name){"x", request->x}, w, services->tensors, tenant, fault);
    if (code == GEMMD_OK)
        code = conv2d_request_settle_residents(request, call_residents_tensor(residents->a),
                                               call_residents_tensor(residents->b), fault);
    if (code == GEMMD_OK)
        code = check_resident_x(residents->a, fault);
    if (code == GEMMD_OK)
        code = conv2d_request_check(request, call->body_format, fault);
    call->timeout_ms = request->timeout_ms;
    call->priority = request->priority;
    return code;
}

static bool conv2d_result(struct compute_call *call)
{
    if (!conv2d_request_result(&call->request.conv2d, &call->c))
        return false;
    call->result_bytes = call->client_memory.result.wanted ? 0 : call->c.bytes;
    return true;
}

static void conv2d_point_residents(const struct call_residents *residents, struct work *work)
{
    const struct resident *x = call_residents_a(residents), *w = call_residents_b(residents);
    struct conv_problem *problem = &work->task.problem.conv2d;
    if (x != NULL)
        problem->x = resident_memory(x);
    if (w != NULL) {
        problem->w = resident_memory(w);
        problem->w_leading = resident_leading(w);
    }
    if (residents->stored != NULL)
        problem->y = resident_memory(residents->stored);
}

/* Describes the problem before the body has arrived. Operands in the body and the result are not
 * located yet; the pointers only say which of the optional ones will be present. */
static enum gemmd_error describe_conv2d_problem(const struct conv2d_request *request,
                                                struct conv_problem *problem, struct fault *fault)
{
    static const char present;
    *problem = (struct conv_problem){
        .dtype = request->dtype,
        .out = request->out,
        .precision = request->precision,
        .act = request->act,
        .alpha = request->alpha,
        .bias = request->bias ? &present : NULL,
    };
    return conv2d_request_shape(request, &problem->shape, fault);
}

static enum gemmd_error conv2d_choose_kernel(struct compute_call *call, struct services *services,
                                             struct fault *fault)
{
    struct work *work = &call->work;
    const struct gemm_device device = device_gemm(call->executor->device);
    struct conv_problem *problem = &work->task.problem.conv2d;
    (void)services;
    work->task.operation = &operation_conv2d;
    enum gemmd_error code = describe_conv2d_problem(&call->request.conv2d, problem, fault);
    if (code != GEMMD_OK)
        return code;
    conv2d_point_residents(&call->residents, work);
    /* A filter counts as multiplied with as many rows as Y has pixels, and X with as many as there
     * are filters. */
    const uint64_t pixels =
        problem->shape.batch * problem->shape.out_height * problem->shape.out_width;
    work->outside_bytes =
        call_residents_work_bytes(&call->residents, problem->shape.filters, pixels);
    code = operation_select(&operation_conv2d, &device, call->request.conv2d.kernel, problem,
                            &work->task.kernel, fault);
    if (code == GEMMD_OK && !device_plan(call->executor->device, work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return code;
}

static void conv2d_point_result(struct compute_call *call, unsigned char *payload)
{
    if (call->client_memory.result.wanted)
        payload = call->client_memory.result.at;
    call->c.data = payload;
    call->work.task.problem.conv2d.y = payload;
}

/* Points the problem at the operands that have data. Whether there is a bias was set by
 * describe_conv2d_problem. */
static void conv2d_point(struct compute_call *call, const union call_operands *all_operands)
{
    const struct conv2d_operands *operands = &all_operands->conv2d;
    struct conv_problem *problem = &call->work.task.problem.conv2d;
    if (operands->x.rank > 0 && operands->x.data != NULL)
        problem->x = operands->x.data;
    if (operands->w.rank > 0 && operands->w.data != NULL)
        problem->w = operands->w.data;
    if (operands->bias.rank > 0 && operands->bias.data != NULL)
        problem->bias = operands->bias.data;
}

static enum gemmd_error conv2d_read(struct compute_call *call, struct body_front *front,
                                    union call_operands *operands, struct fault *fault)
{
    return conv2d_request_bind_front(&call->request.conv2d, call->body_format, front,
                                     &operands->conv2d, fault);
}

static const char *conv2d_store_name(const union call_request *request)
{
    return request->conv2d.store;
}

/* m, n and k are those of the product that the convolution is, for one image. */
static enum gemmd_dtype conv2d_describe(const union call_request *request, struct log_access *entry)
{
    const struct conv2d_request *conv = &request->conv2d;
    const struct log_size sizes[] = {{"channels", conv->channels}, {"height", conv->height},
                                     {"width", conv->width},       {"filters", conv->filters},
                                     {"filter_h", conv->filter_h}, {"filter_w", conv->filter_w},
                                     {"groups", conv->groups}};
    struct conv_shape shape;
    struct fault fault;
    _Static_assert(sizeof sizes <= sizeof entry->sizes, "the sizes fit");
    entry->batch = conv->batch;
    entry->dtype = dtype_name(conv->dtype);
    if (conv->filters == 0 || conv2d_request_shape(conv, &shape, &fault) != GEMMD_OK)
        return GEMMD_DTYPE_COUNT;
    entry->m = shape.out_height * shape.out_width;
    entry->n = shape.filters;
    entry->k = shape.channels / shape.groups * shape.r * shape.s;
    memcpy(entry->sizes, sizes, sizeof sizes);
    return conv->dtype;
}

const struct call_operation conv2d_operation = {
    .name = "conv2d",
    .result_name = "y",
    .json_model = "conv2d_fp32",
    .operands = &conv2d_operand_table,
    .parameters = &conv2d_parameter_table,
    .store = conv2d_store_name,
    .stores_contiguous = true,
    .init = conv2d_init,
    .settle = conv2d_settle,
    .read = conv2d_read,
    .result = conv2d_result,
    .choose = conv2d_choose_kernel,
    .header = array_call_header,
    .point_result = conv2d_point_result,
    .point = conv2d_point,
    .point_residents = conv2d_point_residents,
    .describe = conv2d_describe,
};
