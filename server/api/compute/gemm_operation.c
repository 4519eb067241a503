/* gemm_operation: the functions and tables of compute_call.h for products. */
#include <inttypes.h>
#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/size.h"
#include "server/api/compute/call_limits.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"

static void gemm_init(struct compute_call *call)
{
    gemm_request_init(&call->request.gemm);
}

enum gemmd_error gemm_settle_residents(const struct call_residents *residents,
                                       struct gemm_request *request, struct fault *fault)
{
    const enum gemmd_error code = gemm_request_settle_residents(
        request, call_residents_tensor(residents->a), call_residents_tensor(residents->b), fault);
    return code == GEMMD_OK
               ? gemm_request_settle_resident_scales(request, call_residents_scale(residents->a),
                                                     call_residents_scale(residents->b), fault)
               : code;
}

static enum gemmd_error gemm_settle(struct compute_call *call, struct services *services,
                                    const char *tenant, struct fault *fault)
{
    struct gemm_request *request = &call->request.gemm;
    struct call_residents *residents = &call->residents;
    enum gemmd_error code = call_residents_acquire(
        residents, (struct resident_name){"a", request->a}, (struct resident_name){"b", request->b},
        services->tensors, tenant, fault);
    if (code == GEMMD_OK)
        code = gemm_settle_residents(residents, request, fault);
    if (code == GEMMD_OK)
        code = gemm_request_check(&call->request.gemm, call->body_format, fault);
    call->timeout_ms = call->request.gemm.timeout_ms;
    call->priority = call->request.gemm.priority;
    return code;
}

static uint32_t gemm_header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    _Static_assert((int)NPY_HEADER_MAX <= (int)SAFETENSORS_HEADER_MAX, "npy header fits");
    if (call->answer_format == FORMAT_NPY)
        return npy_header(&call->c, out);
    if (call->answer_format == FORMAT_SAFETENSORS) {
        struct safetensors_entry entry = {.name = "c", .tensor = call->c};
        return safetensors_header(&entry, 1, out);
    }
    return 0;
}

static void gemm_point_result(struct compute_call *call, unsigned char *payload)
{
    if (call->client_memory.result.wanted)
        payload = call->client_memory.result.at;
    call->c.data = payload;
    call->work.task.problem.gemm.c = payload;
}

static bool gemm_result(struct compute_call *call)
{
    if (!gemm_request_result(&call->request.gemm, NULL, &call->c))
        return false;
    call->result_bytes = call->client_memory.result.wanted ? 0 : call->c.bytes;
    return true;
}

/* Checks a batch whose problems all have the same B, and so can be computed as one product with the
 * rows of all A. */
static enum gemmd_error check_one_product(const struct gemm_request *request, struct fault *fault)
{
    if (request->transa)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "transa",
                         "a batch with one resident B takes %s row by row: transa must be 0",
                         request->a_title);
    if (request->batch > GEMM_DIM_MAX / request->m)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "batch",
                         "a batch with one resident B may have %d rows of %s; it has %" PRIu64
                         " times %" PRIu64,
                         GEMM_DIM_MAX, request->a_title, request->batch, request->m);
    return GEMMD_OK;
}

/* Describes the problem before the body has arrived. `products` is the number of problems of the
 * batch that are computed as one product. */
static void describe_gemm_problem(const struct gemm_request *request, uint64_t products,
                                  struct gemm_problem *problem)
{
    *problem = (struct gemm_problem){
        .dtype = request->dtype,
        .out = request->out,
        .precision = request->precision,
        .scales = request->scales,
        .act = request->act,
        .transa = request->transa,
        .transb = request->transb,
        .m = request->m * products,
        .n = request->n,
        .k = request->k,
        .batch = request->batch / products,
        .alpha = request->alpha,
        .beta = request->beta,
    };
    /* The locations of the operands are not known yet, only which operands will be present. */
    static const char present;
    static const float scale;
    problem->a = problem->b = &present;
    problem->bias = request->bias ? &present : NULL;
    problem->c0 = request->beta != 0 ? &present : NULL;
    if (request->scales != GEMM_SCALES_NONE)
        problem->a_scale.data = problem->b_scale.data = &scale;
    gemm_problem_contiguous(problem);
    gemm_problem_scales_contiguous(problem, request->scale_transa, request->scale_transb);
}

/* Sets whether the result is verified. Only products without an activation and without scales can
 * be verified (kernels/freivalds.h). */
static void choose_verification(struct compute_call *call, struct services *services)
{
    struct work *work = &call->work;
    if (call->request.gemm.verify == GEMM_VERIFY_FREIVALDS)
        work->verify = WORK_VERIFY_ASKED;
    else if (call->request.gemm.act == GEMM_ACT_NONE &&
             call->request.gemm.scales == GEMM_SCALES_NONE &&
             verify_draw_sample(&services->verify_draw, call->config->verify_share))
        work->verify = WORK_VERIFY_SAMPLED;
    else
        work->verify = WORK_UNVERIFIED;
    if (work->verify != WORK_UNVERIFIED)
        work->verify_seed = verify_draw_seed(&services->verify_draw);
}

/* Points the problem at the scales that a resident operand brings with it. */
static void point_scale(const struct resident *resident, enum gemm_scales scales,
                        struct gemm_scale *scale)
{
    if (scales != GEMM_SCALES_NONE && resident_scale(resident)->rank > 0)
        scale->data = resident_scale_memory(resident);
}

/* Sets the pointers, leading dimensions and strides for the operands that are resident, and for a
 * stored result. */
static void gemm_point_residents(const struct call_residents *residents, struct work *work)
{
    struct gemm_problem *problem = &work->task.problem.gemm;
    const struct resident *a = call_residents_a(residents), *b = call_residents_b(residents);
    if (a != NULL) {
        problem->a = resident_memory(a);
        problem->lda = resident_leading(a);
        problem->stride_a = call_residents_stride(a);
        point_scale(a, problem->scales, &problem->a_scale);
    }
    if (b != NULL) {
        problem->b = resident_memory(b);
        problem->ldb = resident_leading(b);
        problem->stride_b = call_residents_stride(b);
        point_scale(b, problem->scales, &problem->b_scale);
    }
    if (residents->stored != NULL) {
        problem->c = resident_memory(residents->stored);
        problem->ldc = resident_leading(residents->stored);
        problem->stride_c = call_residents_stride(residents->stored);
    }
}

static enum gemmd_error gemm_choose_kernel(struct compute_call *call, struct services *services,
                                           struct fault *fault)
{
    const struct gemm_request *request = &call->request.gemm;
    struct work *work = &call->work;
    const struct gemm_device device = device_gemm(call->executor->device);
    const bool one_product = request->one_b && request->batch > 1;
    enum gemmd_error code = one_product ? check_one_product(request, fault) : GEMMD_OK;

    if (code != GEMMD_OK)
        return code;
    work->task.operation = &operation_gemm;
    describe_gemm_problem(request, one_product ? request->batch : 1, &work->task.problem.gemm);
    gemm_point_residents(&call->residents, work);
    work->outside_bytes = call_residents_work_bytes(&call->residents, work->task.problem.gemm.n,
                                                    work->task.problem.gemm.m);
    code = operation_select(&operation_gemm, &device, request->kernel, &work->task.problem.gemm,
                            &work->task.kernel, fault);
    if (code != GEMMD_OK)
        return code;
    choose_verification(call, services);
    if (!device_plan(call->executor->device, work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return GEMMD_OK;
}

/* Points the problem at the operands that have data. Whether there are bias and C0 was set by
 * describe_gemm_problem. */
static void gemm_point(struct compute_call *call, const union call_operands *all_operands)
{
    const struct gemm_operands *operands = &all_operands->gemm;
    struct gemm_problem *problem = &call->work.task.problem.gemm;
    if (operands->a.rank > 0 && operands->a.data != NULL)
        problem->a = operands->a.data;
    if (operands->b.rank > 0 && operands->b.data != NULL)
        problem->b = operands->b.data;
    if (operands->bias.rank > 0 && operands->bias.data != NULL)
        problem->bias = operands->bias.data;
    if (operands->c0.rank > 0 && operands->c0.data != NULL)
        problem->c0 = operands->c0.data;
    if (operands->a_scale.rank > 0 && operands->a_scale.data != NULL)
        problem->a_scale.data = operands->a_scale.data;
    if (operands->b_scale.rank > 0 && operands->b_scale.data != NULL)
        problem->b_scale.data = operands->b_scale.data;
}

static enum gemmd_error gemm_check(struct compute_call *call, const union call_operands *operands,
                                   struct fault *fault)
{
    const struct tensor *a = &operands->gemm.a_scale, *b = &operands->gemm.b_scale;
    enum gemmd_error code = GEMMD_OK;
    (void)call;
    if (a->rank > 0)
        code = gemm_scales_check("a_scale", a, fault);
    if (code == GEMMD_OK && b->rank > 0)
        code = gemm_scales_check("b_scale", b, fault);
    return code;
}

static enum gemmd_error gemm_read(struct compute_call *call, struct body_front *front,
                                  union call_operands *operands, struct fault *fault)
{
    const enum gemmd_error code = gemm_request_bind_front(&call->request.gemm, call->body_format,
                                                          front, &operands->gemm, fault);
    call->request.gemm.transa = operands->gemm.transa;
    call->request.gemm.transb = operands->gemm.transb;
    return code;
}

static const char *gemm_store(const union call_request *request)
{
    return request->gemm.store;
}

static enum gemmd_dtype gemm_describe(const union call_request *request, struct log_access *entry)
{
    const struct gemm_request *gemm = &request->gemm;
    entry->m = gemm->m;
    entry->n = gemm->n;
    entry->k = gemm->k;
    entry->batch = gemm->batch;
    entry->dtype = dtype_name(gemm->dtype);
    return gemm->m != 0 ? gemm->dtype : GEMMD_DTYPE_COUNT;
}

const struct call_operation gemm_operation = {
    .name = "gemm",
    .result_name = "c",
    .json_model = "gemm_fp32",
    .operands = &gemm_operand_table,
    .parameters = &gemm_parameter_table,
    .store = gemm_store,
    .init = gemm_init,
    .settle = gemm_settle,
    .read = gemm_read,
    .result = gemm_result,
    .choose = gemm_choose_kernel,
    .header = gemm_header,
    .point_result = gemm_point_result,
    .point = gemm_point,
    .point_residents = gemm_point_residents,
    .describe = gemm_describe,
    .check = gemm_check,
};
