/* attention_operation: the functions and tables of compute_call.h for attentions. */
#include <math.h>
#include <string.h>

#include "kernels/operations.h"
#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/size.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"

static void attention_init(struct compute_call *call)
{
    attention_request_init(&call->request.attention);
}

static enum gemmd_error attention_settle(struct compute_call *call, struct services *services,
                                         const char *tenant, struct fault *fault)
{
    struct attention_request *request = &call->request.attention;
    struct call_residents *residents = &call->residents;
    enum gemmd_error code = call_residents_acquire(
        residents, (struct resident_name){"k", request->k}, (struct resident_name){"v", request->v},
        services->tensors, tenant, fault);
    if (code == GEMMD_OK)
        code = attention_request_settle_residents(request, call_residents_tensor(residents->a),
                                                  call_residents_tensor(residents->b), fault);
    if (code == GEMMD_OK)
        code = attention_request_check(&call->request.attention, call->body_format, fault);
    call->timeout_ms = call->request.attention.timeout_ms;
    call->priority = call->request.attention.priority;
    return code;
}

static bool attention_result(struct compute_call *call)
{
    if (!attention_request_result(&call->request.attention, &call->c, &call->lse))
        return false;
    if (!call->request.attention.lse || !call->sends_lse)
        call->lse = (struct tensor){.rank = 0};
    return size_add(call->client_memory.lse.wanted ? 0 : call->lse.bytes,
                    call->client_memory.result.wanted ? 0 : call->c.bytes, &call->result_bytes);
}

/* The strides of an operand. The rows of a resident tensor may lie further apart than they are
 * wide. */
static struct attention_strides strides_of(const struct attention_request *request, uint64_t heads,
                                           uint64_t length, uint64_t width,
                                           const struct resident *resident)
{
    return attention_strides(request->layout, heads, length,
                             resident != NULL ? resident_leading(resident) : width);
}

/* Describes the problem before the body has arrived. Operands in the body and results are not
 * located yet; the pointers only say which of the optional ones will be present. */
static void describe_attention_problem(const struct compute_call *call,
                                       struct attention_problem *problem)
{
    static const int32_t lengths;
    static float lse;
    const struct attention_request *r = &call->request.attention;
    const struct resident *k = call_residents_a(&call->residents);
    const struct resident *v = call_residents_b(&call->residents);
    const bool scaled = attention_request_given(r, "scale");
    *problem = (struct attention_problem){
        .dtype = r->dtype,
        .batch = r->batch,
        .heads = r->heads,
        .kv_heads = r->kv_heads,
        .sq = r->sq,
        .skv = r->skv,
        .d = r->d,
        .dv = r->dv,
        .causal = r->causal,
        .windowed = attention_request_given(r, "window"),
        .window = r->window,
        .scale = (float)(scaled ? r->scale : 1 / sqrt((double)r->d)),
        .softcap = (float)r->softcap,
        .k = k != NULL ? resident_memory(k) : NULL,
        .v = v != NULL ? resident_memory(v) : NULL,
        .lens_q = r->lens ? &lengths : NULL,
        .lens_kv = r->lens ? &lengths : NULL,
        .lse = call->lse.rank > 0 ? &lse : NULL,
        .q_strides = strides_of(r, r->heads, r->sq, r->d, NULL),
        .k_strides = strides_of(r, r->kv_heads, r->skv, r->d, k),
        .v_strides = strides_of(r, r->kv_heads, r->skv, r->dv, v),
        .o_strides = strides_of(r, r->heads, r->sq, r->dv, NULL),
    };
}

static enum gemmd_error attention_choose_kernel(struct compute_call *call,
                                                struct services *services, struct fault *fault)
{
    struct work *work = &call->work;
    const struct gemm_device device = device_gemm(call->executor->device);
    (void)services;
    struct attention_problem *problem = &work->task.problem.attention;
    work->task.operation = &operation_attention;
    describe_attention_problem(call, problem);
    /* Each head of K and V is used by this many rows of Q: the queries of all heads that share it.
     */
    const uint64_t rows = problem->sq * (problem->heads / problem->kv_heads);
    work->outside_bytes = call_residents_work_bytes(&call->residents, rows, rows);
    enum gemmd_error code =
        operation_select(&operation_attention, &device, call->request.attention.kernel, problem,
                         &work->task.kernel, fault);
    if (code != GEMMD_OK)
        return code;
    if (!device_plan(call->executor->device, work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return GEMMD_OK;
}

/* lse lies before O: the payload begins at a multiple of 64, and O is aligned after the 4-byte
 * numbers of lse. */
static uint32_t attention_header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    const bool has_lse = call->lse.rank > 0;
    const struct safetensors_entry entries[] = {{.name = "lse", .tensor = call->lse},
                                                {.name = "o", .tensor = call->c}};
    if (call->answer_format == FORMAT_NPY)
        return npy_header(&call->c, out);
    if (call->answer_format == FORMAT_SAFETENSORS)
        return safetensors_header(has_lse ? entries : entries + 1, has_lse ? 2 : 1, out);
    return 0;
}

static void attention_point_result(struct compute_call *call, unsigned char *payload)
{
    struct attention_problem *problem = &call->work.task.problem.attention;
    const struct client_memory *client_memory = &call->client_memory;
    unsigned char *lse = NULL, *o = payload;
    if (client_memory->lse.wanted) {
        lse = client_memory->lse.at;
    } else if (call->lse.rank > 0) {
        lse = payload;
        o = payload + call->lse.bytes;
    }
    if (client_memory->result.wanted)
        o = client_memory->result.at;
    call->lse.data = lse;
    problem->lse = (float *)(void *)lse;
    problem->o = o;
    call->c.data = o;
}

/* Points the problem at the operands that have data. Which lengths are present was set by
 * describe_attention_problem. */
static void attention_point(struct compute_call *call, const union call_operands *all_operands)
{
    const struct attention_operands *operands = &all_operands->attention;
    struct attention_problem *problem = &call->work.task.problem.attention;
    if (operands->lens_q.rank > 0 && operands->lens_q.data != NULL)
        problem->lens_q = operands->lens_q.data;
    if (operands->lens_kv.rank > 0 && operands->lens_kv.data != NULL)
        problem->lens_kv = operands->lens_kv.data;
    if (operands->q.rank > 0 && operands->q.data != NULL)
        problem->q = operands->q.data;
    if (operands->k.rank > 0 && operands->k.data != NULL)
        problem->k = operands->k.data;
    if (operands->v.rank > 0 && operands->v.data != NULL)
        problem->v = operands->v.data;
}

static enum gemmd_error attention_check(struct compute_call *call,
                                        const union call_operands *operands, struct fault *fault)
{
    return attention_request_check_lens(&call->request.attention, &operands->attention, fault);
}

static enum gemmd_error attention_read(struct compute_call *call, struct body_front *front,
                                       union call_operands *operands, struct fault *fault)
{
    return attention_request_bind_front(&call->request.attention, call->body_format, front,
                                        &operands->attention, fault);
}

static void attention_point_residents(const struct call_residents *residents, struct work *work)
{
    const struct resident *k = call_residents_a(residents), *v = call_residents_b(residents);
    if (k != NULL)
        work->task.problem.attention.k = resident_memory(k);
    if (v != NULL)
        work->task.problem.attention.v = resident_memory(v);
}

/* m, n and k are those of Q*K^T. */
static enum gemmd_dtype attention_describe(const union call_request *request,
                                           struct log_access *entry)
{
    const struct attention_request *attention = &request->attention;
    const struct log_size sizes[] = {{"heads", attention->heads}, {"kv_heads", attention->kv_heads},
                                     {"sq", attention->sq},       {"skv", attention->skv},
                                     {"d", attention->d},         {"dv", attention->dv}};
    _Static_assert(sizeof sizes <= sizeof entry->sizes, "the sizes fit");
    entry->m = attention->sq;
    entry->n = attention->skv;
    entry->k = attention->d;
    entry->batch = attention->batch;
    if (attention->heads != 0)
        memcpy(entry->sizes, sizes, sizeof sizes);
    entry->dtype = dtype_name(attention->dtype);
    return attention->heads != 0 ? attention->dtype : GEMMD_DTYPE_COUNT;
}

const struct call_operation attention_operation = {
    .name = "attention",
    .result_name = "o",
    .json_model = "attention_fp32",
    .operands = &attention_operand_table,
    .parameters = &attention_parameter_table,
    .init = attention_init,
    .settle = attention_settle,
    .read = attention_read,
    .result = attention_result,
    .choose = attention_choose_kernel,
    .header = attention_header,
    .point_result = attention_point_result,
    .point = attention_point,
    .point_residents = attention_point_residents,
    .describe = attention_describe,
    .check = attention_check,
};
