/* call_experts: what experts supply to a compute call (call_operation.h). */
#include <string.h>

#include "proto/dtype.h"
#include "server/api/compute/call_operation.h"
#include "server/api/compute/call_residents.h"
#include "server/observe/log.h"

static void experts_init(union call_request *request)
{
    experts_request_init(&request->experts);
}

static enum gemmd_error experts_settle(union call_request *of,
                                       const struct call_residents *residents, enum format format,
                                       struct fault *fault)
{
    struct experts_request *request = &of->experts;
    const enum gemmd_error code = experts_request_settle_residents(
        request, call_residents_tensor(residents->a), call_residents_tensor(residents->b), fault);
    return code == GEMMD_OK ? experts_request_check(request, format, fault) : code;
}

static enum gemmd_error experts_read(union call_request *request, enum format format,
                                     struct body_front *front, union call_operands *operands,
                                     struct fault *fault)
{
    return experts_request_bind_front(&request->experts, format, front, &operands->experts, fault);
}

static enum gemmd_error experts_check(const union call_request *request,
                                      const union call_operands *operands, struct fault *fault)
{
    return experts_request_check_numbers(&request->experts, &operands->experts, fault);
}

static bool experts_results(const union call_request *request, struct tensor *c, struct tensor *lse)
{
    lse->rank = 0;
    return experts_request_result(&request->experts, c);
}

static enum gemmd_error experts_problem_from(const union call_request *of,
                                             const struct call_residents *residents, bool has_lse,
                                             union operation_problem *problem, struct fault *fault)
{
    static const float present;
    static const int32_t numbers;
    const struct experts_request *request = &of->experts;
    (void)residents, (void)has_lse, (void)fault;
    problem->experts = (struct experts_problem){
        .dtype = request->dtype,
        .out = request->out,
        .precision = request->precision,
        .act = request->act,
        .transb = request->transb,
        .glu = request->glu,
        .m = request->m,
        .n = request->n,
        .k = request->k,
        .count = request->count,
        .topk = request->topk,
        .experts = &numbers,
        .weights = request->weights ? &present : NULL,
        .bias = request->bias ? &present : NULL,
    };
    experts_problem_contiguous(&problem->experts);
    return GEMMD_OK;
}

static void experts_point_residents(const struct call_residents *residents,
                                    union operation_problem *problem)
{
    struct experts_problem *experts = &problem->experts;
    const struct resident *a = call_residents_a(residents), *w = call_residents_b(residents);
    if (a != NULL) {
        experts->a = resident_memory(a);
        experts->lda = resident_leading(a);
    }
    if (w != NULL) {
        experts->w = resident_memory(w);
        experts->ldw = resident_leading(w);
        experts->stride_w = call_residents_stride(w);
    }
    if (residents->stored != NULL) {
        experts->c = resident_memory(residents->stored);
        experts->ldc = resident_leading(residents->stored);
    }
}

/* W counts as multiplied with as many rows as an expert has in the mean, and A with as many as the
 * experts of a row have columns. */
static void experts_resident_rows(const union operation_problem *problem, uint64_t rows[2])
{
    const struct experts_problem *p = &problem->experts;
    rows[0] = p->topk * experts_columns(p);
    rows[1] = p->m * p->topk / p->count;
}

static enum gemmd_dtype experts_describe(const union call_request *request,
                                         struct log_access *entry)
{
    const struct experts_request *experts = &request->experts;
    const struct log_size sizes[] = {{"experts", experts->count}, {"topk", experts->topk}};
    _Static_assert(sizeof sizes <= sizeof entry->sizes, "the sizes fit");
    entry->m = experts->m;
    entry->n = experts->n;
    entry->k = experts->k;
    entry->batch = 1;
    entry->dtype = dtype_name(experts->dtype);
    memcpy(entry->sizes, sizes, sizeof sizes);
    return experts->m != 0 && experts->n != 0 && experts->k != 0 ? experts->dtype
                                                                 : GEMMD_DTYPE_COUNT;
}

const struct call_operation call_experts = {
    .result_name = "c",
    .json_model = "experts_fp32",
    .operation = &operation_experts,
    .operands = &experts_operand_table,
    .parameters = &experts_parameter_table,
    .kernel_at = offsetof(struct experts_request, kernel),
    .timeout_at = offsetof(struct experts_request, timeout_ms),
    .priority_at = offsetof(struct experts_request, priority),
    .store_at = offsetof(struct experts_request, store),
    .residents = {{"a", offsetof(struct experts_request, a), false},
                  {"w", offsetof(struct experts_request, w), false}},
    .init = experts_init,
    .settle = experts_settle,
    .read = experts_read,
    .check = experts_check,
    .results = experts_results,
    .problem = experts_problem_from,
    .point_residents = experts_point_residents,
    .resident_rows = experts_resident_rows,
    .describe = experts_describe,
};
