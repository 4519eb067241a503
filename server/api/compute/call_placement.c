#include "server/api/compute/call_placement.h"

#include <string.h>

#include "proto/npy.h"
#include "proto/safetensors.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/compute/call_sequence.h"
#include "server/api/compute/call_split.h"
#include "server/api/services.h"

/* ---- the device ---- */

struct executor *call_device_choose(const struct compute_call *call, struct services *services,
                                    uint32_t full)
{
    struct executors *executors = &services->executors;
    uint64_t missing[DEVICES_MAX];
    if (executors->count == 1)
        return &executors->list[0];
    if (call->residents.sequence != NULL) /* a sequence lies on one device */
        return &executors->list[resident_device(call->residents.sequence)];
    const struct device *shared = client_memory_device(&call->client_memory);
    for (uint32_t i = 0; i < executors->count; i++) {
        if (executors->list[i].device == shared && full == 0)
            return &executors->list[i];
        missing[i] =
            (full & 1u << i) != 0 ? UINT64_MAX : call_residents_missing(&call->residents, i);
    }
    return executor_place(executors, missing);
}

void call_device_discharge(struct compute_call *call)
{
    if (call->charged_ns > 0)
        executor_discharge(call->executor, call->charged_ns);
    call->charged_ns = 0;
}

void call_device_charge(struct compute_call *call, const struct services *services, double flops,
                        uint64_t bytes)
{
    const struct task *task = &call->work.task;
    const struct executor_load load = {
        .dtype = flops > 0 ? task->operation->dtype(&task->problem) : GEMMD_F32,
        .flops = flops,
        .host_bytes = bytes,
    };
    uint64_t ns = 0;
    if (services->executors.count == 1)
        return;
    if (flops > 0 || bytes > 0)
        ns = executor_estimate_ns(call->executor, &load);
    executor_charge(call->executor, ns);
    call_device_discharge(call);
    call->charged_ns = ns;
}

/* ---- the kernel and the memory ---- */

/* Refuses a result that is larger than --max-result. */
static enum gemmd_error refuse_result(const struct compute_call *call, uint64_t limit,
                                      struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the result would be %s; --max-result is %s",
                     size_text(call->result_bytes).text, size_text(limit).text);
}

bool call_measure_results(struct compute_call *call, const union call_request *request)
{
    const struct client_memory *shared = &call->client_memory;
    call->sends_result = false;
    call->result_bytes = UINT64_MAX;
    if (!call->operation->results(request, &call->c, &call->lse))
        return false;
    if (!call->sends_lse)
        call->lse.rank = 0;
    if (call->lse.rank == 0)
        call->lse.bytes = 0;
    if (!size_add(shared->lse.wanted ? 0 : call->lse.bytes,
                  shared->result.wanted ? 0 : call->c.bytes, &call->result_bytes))
        return false;
    call->sends_result = compute_call_store(call)[0] == '\0' && call->result_bytes > 0;
    return true;
}

/* Refuses results that are too large. */
static enum gemmd_error check_result(const struct compute_call *call, struct fault *fault)
{
    const uint64_t limit = call->config->max_result_bytes;
    if (call->result_bytes == UINT64_MAX)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result's size does not fit in 64 bits");
    if (call->sends_result && call->result_bytes > limit)
        return refuse_result(call, limit, fault);
    return GEMMD_OK;
}

enum gemmd_error call_reserve_more(struct compute_call *call, uint64_t bytes, struct fault *fault)
{
    const enum gemmd_error code = admission_grow(&call->reservation, bytes, fault);
    if (code == GEMMD_OK && bytes > call->queue_bytes)
        call->queue_bytes = bytes;
    return code;
}

/* Adds the results to the reservation of a body that has its shapes inside. The reservation of a
 * raw body has included them from the start. A stored result is not part of a reservation. */
static enum gemmd_error complete_reservation(struct compute_call *call, struct fault *fault)
{
    const uint64_t body_bytes = call->body_sized ? call->body_capacity : call->body_bytes;
    uint64_t bytes;
    if (!size_add(body_bytes, call->sends_result ? call->result_bytes : 0, &bytes))
        bytes = UINT64_MAX;
    return call_reserve_more(call, bytes, fault);
}

/* Whether memory that the client shares lies on another device than the one that computes. */
static bool shares_elsewhere(const struct compute_call *call)
{
    return call->client_memory.on_device &&
           client_memory_device(&call->client_memory) != call->executor->device;
}

/* Takes memory for a result that is to be stored, on the device that computes. */
static enum gemmd_error reserve_stored(struct compute_call *call, struct services *services,
                                       struct fault *fault)
{
    const struct stored_result result = {.name = compute_call_store(call),
                                         .tensor = &call->c,
                                         .contiguous = call->operation->stores_contiguous};
    return call_residents_reserve(&call->residents, &result, services->tensors,
                                  executors_number(&services->executors, call->executor), fault);
}

/* Counts the floating-point operations of the work, and refuses a work that has too many. */
static enum gemmd_error count_work(struct compute_call *call, struct fault *fault)
{
    const uint64_t limit = call->config->max_work;
    call->work.flops = work_flops(&call->work);
    if (limit == 0 || call->work.flops <= (double)limit)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "the request would take %s; --max-work is %s (floating-point operations)",
                     size_work_text(call->work.flops).text, size_work_text((double)limit).text);
}

/* Sets whether the result is checked: because the request asks for that, or because the call
 * belongs to the sample. */
static void choose_check(struct compute_call *call, struct services *services,
                         const union call_request *request)
{
    struct work *work = &call->work;
    const struct operation *operation = work->task.operation;
    if (call->operation->asks_check != NULL && call->operation->asks_check(request))
        work->verify = WORK_VERIFY_ASKED;
    else if (operation->check != NULL && operation->can_check(&work->task.problem) &&
             verify_draw_sample(&services->verify_draw, call->config->verify_share))
        work->verify = WORK_VERIFY_SAMPLED;
    else
        work->verify = WORK_UNVERIFIED;
    if (work->verify != WORK_UNVERIFIED)
        work->verify_seed = verify_draw_seed(&services->verify_draw);
}

/* Does the steps that are the same for every device: measures the results and the work, refuses
 * what is too large, completes the reservation, and describes the problem. */
static enum gemmd_error describe_call(struct compute_call *call, struct services *services,
                                      const union call_request *request, struct fault *fault)
{
    if (call->shapes_inside) /* else reserve_call has measured the results */
        (void)call_measure_results(call, request);
    enum gemmd_error code = check_result(call, fault);
    if (code == GEMMD_OK && call->shapes_inside)
        code = complete_reservation(call, fault);
    if (code == GEMMD_OK)
        code = call->operation->problem(request, &call->residents, call->lse.rank > 0,
                                        &call->work.task.problem, fault);
    if (code == GEMMD_OK)
        code = count_work(call, fault);
    if (code == GEMMD_OK)
        choose_check(call, services, request);
    return code;
}

/* Points the problem at the resident tensors, and counts them for the tenant's fair share. */
static void use_residents(struct compute_call *call)
{
    enum { MANY_ROWS = 128 }; /* so many that all bytes of a resident operand count */
    const struct call_operation *operation = call->operation;
    union operation_problem *problem = &call->work.task.problem;
    uint64_t rows[2] = {MANY_ROWS, MANY_ROWS};
    operation->point_residents(&call->residents, problem);
    if (operation->resident_rows != NULL)
        operation->resident_rows(problem, rows);
    call->work.outside_bytes = call_residents_work_bytes(&call->residents, rows[0], rows[1]);
}

/* Chooses the kernel of a problem that has been described, and plans how the device launches it. */
static enum gemmd_error choose_kernel(struct compute_call *call, const union call_request *request,
                                      struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    struct task *task = &call->work.task;
    const struct gemm_device device = device_gemm(call->executor->device);
    call->work.outside_bytes = 0;
    if (call_residents_any(&call->residents))
        use_residents(call);
    const enum gemmd_error code = operation_select(
        task->operation, &device, call_request_field(request, operation->kernel_at), &task->problem,
        &task->kernel, fault);
    if (code != GEMMD_OK)
        return code;
    call->work.share_flops = work_share_flops(&call->work);
    if (!device_plan(call->executor->device, &call->work))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the device memory needed does not fit in 64 bits");
    return GEMMD_OK;
}

/* Points c, lse and the problem at the memory of the results: at `payload`, where lse lies before
 * c, or at the client's memory for results that are wanted there. */
static void point_results(struct compute_call *call, unsigned char *payload)
{
    const struct client_memory *shared = &call->client_memory;
    struct task *task = &call->work.task;
    const uint32_t first = task->operation->operands;
    unsigned char *lse = NULL, *c = payload;
    if (shared->lse.wanted) {
        lse = shared->lse.at;
    } else if (call->lse.rank > 0) {
        /* The payload begins at a multiple of 64, and c is aligned after the numbers of lse. */
        lse = payload;
        c = payload + call->lse.bytes;
    }
    if (shared->result.wanted)
        c = shared->result.at;
    call->c.data = c;
    call->lse.data = lse;
    operation_point(task->operation, &task->problem, first, c);
    if (task->operation->results > 1)
        operation_point(task->operation, &task->problem, first + 1, lse);
}

/* Writes the header that the answer's format has before the results. Returns its length in bytes.
 */
static uint32_t write_header(const struct compute_call *call, char out[SAFETENSORS_HEADER_MAX])
{
    _Static_assert((int)NPY_HEADER_MAX <= (int)SAFETENSORS_HEADER_MAX, "npy header fits");
    struct safetensors_entry entries[2] = {{.name = "lse", .tensor = call->lse}}, *at = entries;
    if (call->answer_format == FORMAT_NPY)
        return npy_header(&call->c, out);
    if (call->answer_format != FORMAT_SAFETENSORS)
        return 0;
    if (call->lse.rank > 0)
        at++;
    stpcpy(at->name, call->operation->result_name);
    at++->tensor = call->c;
    return safetensors_header(entries, (uint32_t)(at - entries), out);
}

/* Takes pinned memory for the header of the answer's format and the results, and writes the header.
 */
static enum gemmd_error take_result(struct compute_call *call, struct fault *fault)
{
    char header[SAFETENSORS_HEADER_MAX];
    uint64_t block_bytes;
    const uint32_t format_bytes = write_header(call, header);
    call->header_bytes = call->front_bytes + format_bytes;
    if (!size_add(call->header_bytes, call->result_bytes, &block_bytes))
        return refuse_result(call, call->config->max_result_bytes, fault);
    call->result = pool_alloc(call->memory, block_bytes, fault);
    if (call->result == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    memcpy(call->result + call->front_bytes, header, format_bytes);
    point_results(call, call->result + call->header_bytes);
    return GEMMD_OK;
}

/* Takes the work's range of device memory. */
static enum gemmd_error take_device_memory(struct compute_call *call, struct fault *fault)
{
    struct work *work = &call->work;
    struct arena *arena = device_arena(call->executor->device);
    if (work->device_bytes > arena_capacity_bytes(arena))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the problem would need %s of device memory; the device has %s for "
                         "problems (--device-bytes)",
                         size_text(work->device_bytes).text,
                         size_text(arena_capacity_bytes(arena)).text);
    if (!arena_alloc(arena, work->device_bytes, &work->device_offset))
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "out of device memory: %s needed, %s free (--device-bytes)",
                         size_text(work->device_bytes).text,
                         size_text(arena_capacity_bytes(arena) - arena_used_bytes(arena)).text);
    call->has_device_memory = true;
    return GEMMD_OK;
}

/* Chooses the kernel of a call that has been described, and takes memory, on the device that
 * call_device_choose has chosen. */
static enum gemmd_error prepare_call(struct compute_call *call, struct services *services,
                                     const union call_request *request, struct fault *fault)
{
    struct work *work = &call->work;
    const bool is_stored = compute_call_store(call)[0] != '\0';
    work->own_launch = shares_elsewhere(call);
    enum gemmd_error code = GEMMD_OK;
    if (call_residents_any(&call->residents))
        code = call_residents_bring(&call->residents, services->tensors,
                                    executors_number(&services->executors, call->executor), work,
                                    fault);
    if (code == GEMMD_OK && call->residents.sequence != NULL)
        code = call_sequence_begin(call, services, request, fault);
    if (code == GEMMD_OK && is_stored)
        code = reserve_stored(call, services, fault);
    if (code == GEMMD_OK)
        code = choose_kernel(call, request, fault);
    if (code == GEMMD_OK && call->sends_result)
        code = take_result(call, fault);
    if (code != GEMMD_OK)
        return code;
    if (!call->sends_result && !is_stored)
        point_results(call, NULL);
    if (services->executors.count > 1)
        call_split_open(call, services);
    if (call->split == NULL && work->device_bytes > 0)
        return take_device_memory(call, fault);
    return GEMMD_OK;
}

/* Gives back what prepare_call has taken before it failed. */
static void undo_prepare(struct compute_call *call, struct services *services)
{
    /* Device memory needs no undo, because it is taken last. */
    call_residents_close(&call->residents, services->tensors);
    pool_free(call->memory, call->result, call->header_bytes + call->result_bytes);
    call->result = NULL;
}

/* Prepares the call on the device that call_device_choose chooses. If that device lacks memory, the
 * other devices are tried. */
static enum gemmd_error prepare_somewhere(struct compute_call *call, struct services *services,
                                          const union call_request *request, struct fault *fault)
{
    const struct executors *executors = &services->executors;
    uint32_t full = 0;
    /* The body may have named resident operands and shared memory (inference protocol), and other
     * devices may have become free while the body arrived. */
    if (call->shapes_inside) {
        call_device_discharge(call);
        call->executor = call_device_choose(call, services, full);
    }
    enum gemmd_error code = describe_call(call, services, request, fault);
    if (code != GEMMD_OK)
        return code;
    for (;;) {
        code = prepare_call(call, services, request, fault);
        if (code == GEMMD_OK)
            return GEMMD_OK;
        undo_prepare(call, services);
        full |= 1u << executors_number(executors, call->executor);
        if (code != GEMMD_ERR_OUT_OF_MEMORY || full + 1 == 1u << executors->count)
            return code;
        struct executor *other = call_device_choose(call, services, full);
        if ((full & 1u << executors_number(executors, other)) != 0)
            return code; /* the remaining devices are lost */
        call_device_discharge(call);
        call->executor = other;
    }
}

enum gemmd_error call_prepare(struct compute_call *call, struct services *services,
                              const union call_request *request, struct fault *fault)
{
    if (call->prepared)
        return GEMMD_OK;
    const enum gemmd_error code = prepare_somewhere(call, services, request, fault);
    call->prepared = code == GEMMD_OK;
    if (code != GEMMD_OK || services->executors.count == 1)
        return code;
    if (call->split != NULL) {
        call_device_discharge(call); /* the executors of the subproblems are charged instead */
    } else {
        const struct call_host_bytes bytes = call_host_bytes(call);
        call_device_charge(call, services, call->work.flops,
                           (uint64_t)(bytes.whole + bytes.divided));
    }
    return code;
}
