/* The product's part of compute_call.h. */
#include <inttypes.h>
#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/npy.h"
#include "proto/size.h"
#include "server/api/compute/compute_call.h"
#include "server/api/services.h"

static void init(struct compute_call *call)
{
    gemm_request_init(&call->gemm);
}

static enum gemmd_error set(struct compute_call *call, const char *name, const char *value,
                            struct fault *fault)
{
    return gemm_request_set(&call->gemm, name, value, fault);
}

static enum gemmd_error settle(struct compute_call *call, struct services *services,
                               const char *tenant, struct fault *fault)
{
    enum gemmd_error code =
        call_residents_acquire(&call->residents, &call->gemm, services->tensors, tenant, fault);
    if (code == GEMMD_OK)
        code = gemm_request_check(&call->gemm, call->body_format, fault);
    call->timeout_ms = call->gemm.timeout_ms;
    call->priority = call->gemm.priority;
    return code;
}

static bool raw_bytes(const struct compute_call *call, uint64_t *out)
{
    return gemm_request_raw_bytes(&call->gemm, out);
}

static enum gemmd_error check_raw_bytes(const struct compute_call *call, uint64_t bytes,
                                        struct fault *fault)
{
    return gemm_request_check_raw_bytes(&call->gemm, bytes, fault);
}

static uint32_t operands(const struct compute_call *call,
                         struct call_operand out[CLIENT_MEMORY_OPERANDS])
{
    static const char *const names[] = {"a", "b", "bias", "c0"};
    struct gemm_operands operands;
    if (!gemm_request_operands(&call->gemm, &operands))
        return 0; /* what is too large to say is refused next */
    const struct tensor *all[] = {&operands.a, &operands.b, &operands.bias, &operands.c0};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        out[i] = (struct call_operand){all[i]->rank > 0 ? names[i] : NULL, all[i]->bytes};
    return sizeof all / sizeof *all;
}

/* A, B, bias and C0 follow each other without gaps, and the latter two may be of a wider type. */
static uint64_t unaligned_bytes(const struct compute_call *call)
{
    const struct gemm_request *request = &call->gemm;
    struct gemm_operands operands;
    uint64_t offset = 0, total = 0;
    if (call->places.memory_count == 0 && dtype_size(request->out) <= dtype_size(request->dtype))
        return 0;
    if (!gemm_request_operands(request, &operands))
        return 0; /* there would be no body */
    const struct tensor *all[] = {&operands.a, &operands.b, &operands.bias, &operands.c0};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bool is_elsewhere = (request->elsewhere & 1u << i) != 0;
        const uint64_t at = is_elsewhere ? (uintptr_t)call->places.operands[i] : offset;
        if (all[i]->rank == 0)
            continue;
        if (at % dtype_size(all[i]->dtype) != 0) { /* all sizes together are below 2^64 */
            total += all[i]->bytes;
            (void)size_align(total, COMPUTE_CALL_COPY_ALIGNMENT, &total);
        }
        offset += is_elsewhere ? 0 : all[i]->bytes;
    }
    return total;
}

static void leave_out(struct compute_call *call, uint32_t operand)
{
    call->gemm.elsewhere |= 1u << operand;
}

static enum gemmd_error check_no_bytes(const struct compute_call *call, struct fault *fault)
{
    struct gemm_request request = call->gemm;
    struct gemm_operands none;
    return gemm_request_bind(&request, call->body_format, "", 0, &none, fault);
}

static uint32_t header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX])
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

static void place_result(struct compute_call *call, unsigned char *payload)
{
    if (call->places.result.there)
        payload = call->places.result.at;
    call->c.data = payload;
    call->work.problem.c = payload;
}

static bool result(struct compute_call *call)
{
    const bool known = gemm_request_result_bytes(&call->gemm, &call->result_bytes) &&
                       gemm_request_result(&call->gemm, NULL, &call->c);
    if (known && call->places.result.there)
        call->result_bytes = 0;
    return known;
}

/* Whether all problems of a batch have the same B: their rows are those of one product then. */
static bool is_one_product(const struct gemm_request *request)
{
    return request->one_b && request->batch > 1;
}

static enum gemmd_error check_one_product(const struct gemm_request *request, struct fault *fault)
{
    if (!is_one_product(request))
        return GEMMD_OK;
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

static void describe(const struct gemm_request *request, struct gemm_problem *problem)
{
    const uint64_t products = is_one_product(request) ? request->batch : 1;
    *problem = (struct gemm_problem){
        .dtype = request->dtype,
        .out = request->out,
        .precision = request->precision,
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
    /* Where the operands are is not known yet, only whether there will be any. */
    static const char present;
    problem->a = problem->b = &present;
    problem->bias = request->bias ? &present : NULL;
    problem->c0 = request->beta != 0 ? &present : NULL;
    gemm_problem_contiguous(problem);
}

static enum gemmd_error choose(struct compute_call *call, struct services *services,
                               struct fault *fault)
{
    const struct gemm_request *request = &call->gemm;
    struct work *work = &call->work;
    const struct gemm_device device = device_gemm(services->device);
    enum gemmd_error code = check_one_product(request, fault);

    if (code != GEMMD_OK)
        return code;
    describe(request, &work->problem);
    if (request->store[0] != '\0')
        code =
            call_residents_reserve(&call->residents, request, &call->c, services->tensors, fault);
    if (code != GEMMD_OK)
        return code;
    call_residents_place(&call->residents, &work->problem);
    work->outside_bytes =
        call_residents_work_bytes(&call->residents, work->problem.n, work->problem.m);
    code = gemm_select(&device, request->kernel, &work->problem, &work->kernel, fault);
    if (code != GEMMD_OK)
        return code;
    if (request->verify == GEMM_VERIFY_FREIVALDS && device.backend != GEMM_BACKEND_CPU) {
        code = call_residents_mirror(&call->residents, work, call->memory, fault);
        if (code != GEMMD_OK)
            return code;
    }
    if (!device_plan(services->device, work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return GEMMD_OK;
}

static uint32_t list(struct call_operands *operands, struct tensor *all[CLIENT_MEMORY_OPERANDS])
{
    all[0] = &operands->gemm.a;
    all[1] = &operands->gemm.b;
    all[2] = &operands->gemm.bias;
    all[3] = &operands->gemm.c0;
    return 4;
}

static void settle_operands(struct compute_call *call, const struct call_operands *operands)
{
    call->gemm.transa = operands->gemm.transa;
    call->gemm.transb = operands->gemm.transb;
}

/* Whether there are bias and C0 is described already. */
static void point(struct compute_call *call, const struct call_operands *all_operands)
{
    const struct gemm_operands *operands = &all_operands->gemm;
    struct gemm_problem *problem = &call->work.problem;
    if (operands->a.rank > 0 && operands->a.data != NULL)
        problem->a = operands->a.data;
    if (operands->b.rank > 0 && operands->b.data != NULL)
        problem->b = operands->b.data;
    if (operands->bias.rank > 0 && operands->bias.data != NULL)
        problem->bias = operands->bias.data;
    if (operands->c0.rank > 0 && operands->c0.data != NULL)
        problem->c0 = operands->c0.data;
}

static enum gemmd_error check_places(struct compute_call *call, struct fault *fault)
{
    if (call->gemm.verify != GEMM_VERIFY_NONE && call->places.on_device)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, "verify",
                         "what lies in the GPU's memory cannot be verified on the host");
    call->work.verify = call->gemm.verify == GEMM_VERIFY_FREIVALDS;
    return GEMMD_OK;
}

static enum gemmd_error find(struct compute_call *call, struct call_operands *operands,
                             struct fault *fault)
{
    enum gemmd_error code = gemm_request_bind(&call->gemm, call->body_format, call->body,
                                              call->body_bytes, &operands->gemm, fault);
    struct gemm_operands *found = &operands->gemm;
    struct tensor *const all[] = {&found->a, &found->b, &found->bias, &found->c0};
    client_memory_point(&call->places, all, sizeof all / sizeof *all);
    return code;
}

static enum gemmd_error look(struct compute_call *call, struct body_front *front,
                             struct call_operands *operands)
{
    return gemm_request_bind_front(&call->gemm, call->body_format, front, &operands->gemm, NULL);
}

const struct call_operation gemm_operation = {
    .name = "gemm",
    .init = init,
    .set = set,
    .settle = settle,
    .raw_bytes = raw_bytes,
    .check_raw_bytes = check_raw_bytes,
    .unaligned_bytes = unaligned_bytes,
    .operands = operands,
    .leave_out = leave_out,
    .result_name = "c",
    .check_no_bytes = check_no_bytes,
    .result = result,
    .choose = choose,
    .header = header,
    .place_result = place_result,
    .find = find,
    .look = look,
    .list = list,
    .settle_operands = settle_operands,
    .point = point,
    .check_places = check_places,
};
