/* call_gemm: what products supply to a compute call (call_operation.h). */
#include <inttypes.h>

#include "proto/dtype.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/observe/log.h"

static void gemm_init(union call_request *request)
{
    gemm_request_init(&request->gemm);
}

/* The file of packed weights that B came from; NULL: B is none. */
static const struct packed_file *packed_b(const struct call_residents *residents)
{
    return residents->b != NULL ? resident_packed(residents->b) : NULL;
}

static enum gemmd_error gemm_settle(union call_request *of, const struct call_residents *residents,
                                    enum format format, struct fault *fault)
{
    struct gemm_request *request = &of->gemm;
    if (!call_residents_any(residents))
        return gemm_request_check(request, format, fault);
    const struct packed_file *packed = packed_b(residents);
    enum gemmd_error code = gemm_request_settle_residents(
        request, call_residents_tensor(residents->a),
        packed != NULL ? NULL : call_residents_tensor(residents->b), fault);
    if (code == GEMMD_OK && packed != NULL)
        code = gemm_request_settle_packed(request, packed->layout.k, packed->layout.n, fault);
    if (code == GEMMD_OK)
        code = gemm_request_settle_resident_scales(request, call_residents_scale(residents->a),
                                                   call_residents_scale(residents->b), fault);
    return code == GEMMD_OK ? gemm_request_check(request, format, fault) : code;
}

static enum gemmd_error gemm_read(union call_request *request, enum format format,
                                  struct body_front *front, union call_operands *operands,
                                  struct fault *fault)
{
    const enum gemmd_error code =
        gemm_request_bind_front(&request->gemm, format, front, &operands->gemm, fault);
    request->gemm.transa = operands->gemm.transa;
    request->gemm.transb = operands->gemm.transb;
    return code;
}

static enum gemmd_error gemm_check(const union call_request *request,
                                   const union call_operands *operands, struct fault *fault)
{
    const struct tensor *a = &operands->gemm.a_scale, *b = &operands->gemm.b_scale;
    enum gemmd_error code = GEMMD_OK;
    (void)request;
    if (a->rank > 0)
        code = gemm_scales_check("a_scale", a, fault);
    if (code == GEMMD_OK && b->rank > 0)
        code = gemm_scales_check("b_scale", b, fault);
    return code;
}

static bool gemm_results(const union call_request *request, struct tensor *c, struct tensor *lse)
{
    lse->rank = 0;
    return gemm_request_result(&request->gemm, NULL, c);
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

static enum gemmd_error gemm_problem_of(const union call_request *of,
                                        const struct call_residents *residents, bool has_lse,
                                        union operation_problem *problem, struct fault *fault)
{
    static const char present;
    static const float scale;
    const struct gemm_request *request = &of->gemm;
    const bool one_product = request->one_b && request->batch > 1;
    /* The number of problems of the batch that are computed as one product. */
    const uint64_t products = one_product ? request->batch : 1;
    const enum gemmd_error code = one_product ? check_one_product(request, fault) : GEMMD_OK;
    const struct packed_file *packed = packed_b(residents);
    (void)has_lse;
    if (code != GEMMD_OK)
        return code;
    problem->gemm = (struct gemm_problem){
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
        .a = &present,
        .b = &present,
        .bias = request->bias ? &present : NULL,
        .c0 = request->beta != 0 ? &present : NULL,
    };
    if (packed != NULL) {
        problem->gemm.packed = packed->layout;
        problem->gemm.alpha *= packed_factor(packed);
    }
    gemm_problem_contiguous(&problem->gemm);
    if (request->scales != GEMM_SCALES_NONE) {
        problem->gemm.a_scale.data = problem->gemm.b_scale.data = &scale;
        gemm_problem_scales_contiguous(&problem->gemm, request->scale_transa,
                                       request->scale_transb);
    }
    return GEMMD_OK;
}

/* Points the problem at the scales that a resident operand brings with it. */
static void point_scale(const struct resident *resident, enum gemm_scales scales,
                        struct gemm_scale *scale)
{
    if (scales != GEMM_SCALES_NONE && resident_scale(resident)->rank > 0)
        scale->data = resident_scale_memory(resident);
}

static void gemm_point_residents(const struct call_residents *residents,
                                 union operation_problem *of)
{
    struct gemm_problem *problem = &of->gemm;
    const struct resident *a = call_residents_a(residents), *b = call_residents_b(residents);
    if (a != NULL) {
        problem->a = resident_memory(a);
        problem->lda = resident_leading(a);
        problem->stride_a = call_residents_stride(a);
        point_scale(a, problem->scales, &problem->a_scale);
    }
    if (b != NULL && problem->packed.bits != 0) {
        problem->b = resident_memory(b);
    } else if (b != NULL) {
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

static void gemm_resident_rows(const union operation_problem *problem, uint64_t rows[2])
{
    rows[0] = problem->gemm.n;
    rows[1] = problem->gemm.m;
}

static bool gemm_asks_check(const union call_request *request)
{
    return request->gemm.verify == GEMM_VERIFY_FREIVALDS;
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

const struct call_operation call_gemm = {
    .result_name = "c",
    .json_model = "gemm_fp32",
    .operation = &operation_gemm,
    .operands = &gemm_operand_table,
    .parameters = &gemm_parameter_table,
    .kernel_at = offsetof(struct gemm_request, kernel),
    .timeout_at = offsetof(struct gemm_request, timeout_ms),
    .priority_at = offsetof(struct gemm_request, priority),
    .store_at = offsetof(struct gemm_request, store),
    .residents = {{"a", offsetof(struct gemm_request, a), false},
                  {"b", offsetof(struct gemm_request, b), true}},
    .init = gemm_init,
    .settle = gemm_settle,
    .read = gemm_read,
    .check = gemm_check,
    .results = gemm_results,
    .problem = gemm_problem_of,
    .point_residents = gemm_point_residents,
    .resident_rows = gemm_resident_rows,
    .asks_check = gemm_asks_check,
    .describe = gemm_describe,
};
