/* call_conv2d: what convolutions supply to a compute call (call_operation.h). */
#include <inttypes.h>
#include <string.h>

#include "proto/dtype.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/observe/log.h"

static void conv2d_init(union call_request *request)
{
    conv2d_request_init(&request->conv2d);
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

static enum gemmd_error conv2d_settle(union call_request *of,
                                      const struct call_residents *residents, enum format format,
                                      struct fault *fault)
{
    struct conv2d_request *request = &of->conv2d;
    enum gemmd_error code = conv2d_request_settle_residents(
        request, call_residents_tensor(residents->a), call_residents_tensor(residents->b), fault);
    if (code == GEMMD_OK)
        code = check_resident_x(residents->a, fault);
    return code == GEMMD_OK ? conv2d_request_check(request, format, fault) : code;
}

static enum gemmd_error conv2d_read(union call_request *request, enum format format,
                                    struct body_front *front, union call_operands *operands,
                                    struct fault *fault)
{
    return conv2d_request_bind_front(&request->conv2d, format, front, &operands->conv2d, fault);
}

static bool conv2d_results(const union call_request *request, struct tensor *y, struct tensor *lse)
{
    lse->rank = 0;
    return conv2d_request_result(&request->conv2d, y);
}

static enum gemmd_error conv2d_problem_of(const union call_request *of,
                                          const struct call_residents *residents, bool has_lse,
                                          union operation_problem *problem, struct fault *fault)
{
    static const char present;
    const struct conv2d_request *request = &of->conv2d;
    (void)residents;
    (void)has_lse;
    problem->conv2d = (struct conv_problem){
        .dtype = request->dtype,
        .out = request->out,
        .precision = request->precision,
        .act = request->act,
        .alpha = request->alpha,
        .bias = request->bias ? &present : NULL,
    };
    return conv2d_request_shape(request, &problem->conv2d.shape, fault);
}

static void conv2d_point_residents(const struct call_residents *residents,
                                   union operation_problem *problem)
{
    const struct resident *x = call_residents_a(residents), *w = call_residents_b(residents);
    if (x != NULL)
        problem->conv2d.x = resident_memory(x);
    if (w != NULL) {
        problem->conv2d.w = resident_memory(w);
        problem->conv2d.w_leading = resident_leading(w);
    }
    if (residents->stored != NULL)
        problem->conv2d.y = resident_memory(residents->stored);
}

/* A filter counts as multiplied with as many rows as Y has pixels, and X with as many as there are
 * filters. */
static void conv2d_resident_rows(const union operation_problem *problem, uint64_t rows[2])
{
    const struct conv_shape *shape = &problem->conv2d.shape;
    rows[0] = shape->filters;
    rows[1] = shape->batch * shape->out_height * shape->out_width;
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

const struct call_operation call_conv2d = {
    .result_name = "y",
    .json_model = "conv2d_fp32",
    .operation = &operation_conv2d,
    .operands = &conv2d_operand_table,
    .parameters = &conv2d_parameter_table,
    .kernel_at = offsetof(struct conv2d_request, kernel),
    .timeout_at = offsetof(struct conv2d_request, timeout_ms),
    .priority_at = offsetof(struct conv2d_request, priority),
    .store_at = offsetof(struct conv2d_request, store),
    .stores_contiguous = true,
    .residents = {{"x", offsetof(struct conv2d_request, x), false},
                  {"w", offsetof(struct conv2d_request, w), false}},
    .init = conv2d_init,
    .settle = conv2d_settle,
    .read = conv2d_read,
    .results = conv2d_results,
    .problem = conv2d_problem_of,
    .point_residents = conv2d_point_residents,
    .resident_rows = conv2d_resident_rows,
    .describe = conv2d_describe,
};
