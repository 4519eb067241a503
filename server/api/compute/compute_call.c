#include "server/api/compute/compute_call.h"

#include <inttypes.h>
#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/compute/call_operands.h"
#include "server/api/compute/call_placement.h"
#include "server/api/compute/call_split.h"
#include "server/api/services.h"

/* The first memory of a self-describing body of unknown length, which doubles when it is full. */
static const uint64_t FIRST_BYTES = 64 * 1024;

void compute_call_begin(struct compute_call *call, const struct call_operation *operation)
{
    call->operation = operation;
    call->work.task.operation = operation->operation;
    operation->init(&call->request);
}

/* The resident operand that a parameter names. */
static struct resident_name name_of(const struct compute_call *call, uint32_t i)
{
    const struct call_operation *operation = call->operation;
    const bool is_there = (i == 0 ? call->residents.a : call->residents.b) != NULL;
    if (operation->residents[i].name == NULL || is_there)
        return (struct resident_name){"", ""};
    return (struct resident_name){operation->residents[i].name,
                                  call_request_field(&call->request, operation->residents[i].at)};
}

enum gemmd_error compute_call_settle(struct compute_call *call, struct services *services,
                                     const char *tenant, struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    enum gemmd_error code = call_residents_acquire(
        &call->residents, name_of(call, 0), name_of(call, 1), services->tensors, tenant, fault);
    if (code == GEMMD_OK)
        code = operation->settle(&call->request, &call->residents, call->body_format, fault);
    call->timeout_ms = *(const uint64_t *)call_request_field(&call->request, operation->timeout_at);
    call->priority = *(const uint32_t *)call_request_field(&call->request, operation->priority_at);
    return code;
}

/* Refuses a body that is larger than --max-body. If a single operand of a raw body is too large,
 * the message names the operand. */
static enum gemmd_error refuse_body(const struct compute_call *call, uint64_t bytes, uint64_t limit,
                                    struct fault *fault)
{
    const struct operand_table *table = call->operation->operands;
    const struct size_text most = size_text(limit);
    for (uint32_t i = 0; !call->shapes_inside && i < call->layout.count; i++)
        if ((call->layout.in_body & 1u << i) != 0 && call->layout.tensors[i].bytes > limit)
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "%s would be %s; --max-body is %s",
                             table->operands[i].title,
                             size_text(call->layout.tensors[i].bytes).text, most.text);
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the body would be %s; --max-body is %s",
                     size_text(bytes).text, most.text);
}

enum gemmd_error compute_call_layout(struct compute_call *call, struct fault *fault)
{
    if (operand_layout_compute(&call->layout, call->operation->operands, &call->request, 0))
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "the size of the operands does not fit in 64 bits; --max-body is %s",
                     size_text(call->config->max_body_bytes).text);
}

/* Checks whether an empty body is valid, as it is if all operands are resident. */
static enum gemmd_error check_no_bytes(const struct compute_call *call, struct fault *fault)
{
    static const unsigned char nothing;
    struct body_front front = {.bytes = &nothing};
    struct call_shapes shapes;
    return call_read_front(call, &front, &shapes, fault);
}

/* Checks the length of the body as far as the headers give it. Sets `expected` to the length that
 * the body must have; 0: the length is not known yet. */
static enum gemmd_error check_length(struct compute_call *call, const struct config *config,
                                     struct body_length length, uint64_t *expected,
                                     struct fault *fault)
{
    if (!call->shapes_inside)
        *expected = call->layout.bytes;
    else
        *expected = length.known ? length.bytes : 0;
    if (*expected > config->max_body_bytes)
        return refuse_body(call, *expected, config->max_body_bytes, fault);
    if (!length.known)
        return GEMMD_OK;
    if (call->shapes_inside)
        return length.bytes == 0 ? check_no_bytes(call, fault) : GEMMD_OK;
    return operand_layout_check(&call->layout, call->operation->operands, &call->request,
                                length.bytes, fault);
}

/* Makes the call's reservation: the known bytes of the body, and those of the results if the shapes
 * are known. */
static enum gemmd_error reserve_call(struct compute_call *call, uint64_t body_bytes,
                                     struct fault *fault)
{
    call->queue_bytes = body_bytes;
    /* A result whose size overflows is left out here; call_prepare refuses the result. */
    if (!call->shapes_inside && call_measure_results(call, &call->request) && call->sends_result &&
        !size_add(body_bytes, call->result_bytes, &call->queue_bytes))
        call->queue_bytes = body_bytes;
    return queue_admit(call->executor->queue, call->work.tenant, call->queue_bytes, &call->place,
                       fault);
}

enum gemmd_error compute_call_open(struct compute_call *call, struct services *services,
                                   struct body_length length, struct fault *fault)
{
    const uint64_t limit = call->config->max_body_bytes;
    uint64_t expected;
    enum gemmd_error code = check_length(call, call->config, length, &expected, fault);
    if (code != GEMMD_OK)
        return code;
    if (call->shapes_inside && !length.known)
        expected = FIRST_BYTES < limit ? FIRST_BYTES : limit;
    call->executor = call_device_choose(call, services, 0);
    code = reserve_call(call, expected, fault);
    if (code == GEMMD_OK && call->shapes_inside)
        call_device_charge(call, services, 0,
                           call->queue_bytes); /* until the work's size is known */
    if (code == GEMMD_OK && !call->shapes_inside)
        code = call_prepare(call, services, &call->request, fault);
    if (code != GEMMD_OK)
        return code;

    call->body_capacity = expected;
    call->body_sized = length.known || !call->shapes_inside;
    call->look_at_bytes = UINT64_MAX;
    if (expected == 0)
        return GEMMD_OK; /* all operands are resident */
    call->body = pool_alloc(call->memory, call->body_capacity, fault);
    if (call->body == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    return call->shapes_inside ? GEMMD_OK : call_copies_open(call, fault);
}

/* Enlarges the memory of a body of unknown length, at least to `needed` bytes. */
static enum gemmd_error grow_body(struct compute_call *call, uint64_t needed, struct fault *fault)
{
    uint64_t limit = call->config->max_body_bytes, capacity = call->body_capacity;
    if (needed > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body is longer than --max-body, which is %s", size_text(limit).text);
    while (capacity < needed)
        capacity = capacity > limit / 2 ? limit : capacity * 2;
    enum gemmd_error code = call_reserve_more(call, capacity, fault);
    if (code != GEMMD_OK)
        return code;
    unsigned char *body = pool_alloc(call->memory, capacity, fault);
    if (body == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    memcpy(body, call->body, call->body_bytes);
    pool_free(call->memory, call->body, call->body_capacity);
    call->body = body;
    call->body_capacity = capacity;
    return GEMMD_OK;
}

enum gemmd_error compute_call_append(struct compute_call *call, const void *bytes, uint64_t length,
                                     struct fault *fault)
{
    uint64_t needed;
    if (!size_add(call->body_bytes, length, &needed))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the body's size overflows");
    if (needed > call->body_capacity) {
        if (!call->shapes_inside)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the body has more than the %" PRIu64 " bytes that the operands take",
                             call->body_capacity);
        enum gemmd_error code = grow_body(call, needed, fault);
        if (code != GEMMD_OK)
            return code;
    }
    memcpy(call->body + call->body_bytes, bytes, length);
    call->body_bytes = needed;
    early_copy_received(call->early_copy, needed);
    return GEMMD_OK;
}

enum gemmd_error compute_call_bind(struct compute_call *call, struct services *services,
                                   struct fault *fault)
{
    struct body_front body = {
        .bytes = call->body, .length = call->body_bytes, .received = call->body_bytes};
    struct call_shapes shapes;
    const enum gemmd_error code = call_read_front(call, &body, &shapes, fault);
    if (code != GEMMD_OK)
        return code;
    if (call->client_memory.mapping_count > 0)
        client_memory_point(&call->client_memory, shapes.operands.all,
                            call->operation->operands->count);
    if (call->shapes_inside)
        call->request = shapes.request;
    return compute_call_bind_operands(call, services, &shapes.operands, fault);
}

/* Sets the fields of the work that the queue reads. */
static void describe_work(struct compute_call *call, const union call_operands *operands)
{
    struct work *work = &call->work;
    if (call->early_copy != NULL) {
        work->copy_in = early_copy_copies(call->early_copy);
        /* The operands of a group's works are copied by the group's launch, so that a work whose
         * operands are copied early must not be in a group. */
        if (!work_is_stacked(work))
            work->stack_key = 0;
    }
    work->priority = call->priority;
    work->bytes = call->queue_bytes;
    if (call->client_memory.mapping_count > 0)
        work->outside_bytes += client_memory_bytes(&call->client_memory, operands->all,
                                                   call->operation->operands->count);
    work->outside_bytes += call->client_memory.result.wanted ? call->c.bytes : 0;
    work->outside_bytes += call->client_memory.lse.wanted ? call->lse.bytes : 0;
    work->deadline_ns = call->deadline_ns;
}

enum gemmd_error compute_call_bind_operands(struct compute_call *call, struct services *services,
                                            union call_operands *operands, struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    enum gemmd_error code =
        operation->check != NULL ? operation->check(&call->request, operands, fault) : GEMMD_OK;
    if (code == GEMMD_OK && !call->prepared)
        code = call_prepare(call, services, &call->request, fault);
    if (code == GEMMD_OK && call->client_memory.mapping_count > 0)
        code = client_memory_check_results(&call->client_memory, operands->all,
                                           operation->operands->count, call->c.bytes,
                                           call->lse.bytes, fault);
    if (code == GEMMD_OK)
        code = call_copies_make(call, operands, fault);
    if (code != GEMMD_OK)
        return code;
    call_point(call, operands);
    describe_work(call, operands);
    if (call->split != NULL)
        call_split_point(call);
    return GEMMD_OK;
}

void compute_call_push(struct compute_call *call)
{
    if (call->split != NULL)
        call_split_push(call);
    else
        queue_push(call->executor->queue, &call->work);
}

bool compute_call_cancel(struct compute_call *call)
{
    return call->split != NULL ? call_split_cancel(call)
                               : queue_cancel(call->executor->queue, &call->work);
}

void compute_call_move(struct compute_call *to, struct compute_call *from)
{
    *to = *from;
    to->config = NULL;
    *from = (struct compute_call){.operation = to->operation,
                                  .request = to->request,
                                  .body_format = to->body_format,
                                  .answer_format = to->answer_format,
                                  .shapes_inside = to->shapes_inside,
                                  .deadline_ns = to->deadline_ns,
                                  .memory = to->memory,
                                  .executor = to->executor,
                                  .work.task.operation = to->work.task.operation,
                                  .work.task.kernel = to->work.task.kernel};
}

/* Ends the early copy. If copies may still be running, the early copy takes over the body and the
 * device memory, and frees them later. */
static void close_early_copy(struct compute_call *call)
{
    if (!early_copy_close(call->early_copy)) {
        call->has_device_memory = false;
        call->body = NULL;
    }
    call->early_copy = NULL;
    call->work.copy_in = NULL;
}

/* Logs a result that failed verification, once, even if the client has disconnected. */
static void log_wrong_result(struct compute_call *call, const struct services *services)
{
    const struct gemm_problem *p = &call->work.task.problem.gemm;
    if (call->work.status != GEMMD_ERR_VERIFICATION || call->failure_logged)
        return;
    call->failure_logged = true;
    log_event(services->log, CONFIG_LOG_ERROR,
              "wrong result: request %s, %s to %s, m %" PRIu64 ", n %" PRIu64 ", k %" PRIu64
              ", batch %" PRIu64
              ", kernel %s, device %s (%d): its error is %.3g times what rounding "
              "explains",
              call->request_id != NULL ? call->request_id : "", dtype_name(p->dtype),
              dtype_name(p->out), p->m, p->n, p->k, p->batch, work_kernel_name(&call->work),
              device_info(call->executor->device)->name, device_info(call->executor->device)->index,
              call->work.residual);
}

void compute_call_finish(struct compute_call *call, struct services *services)
{
    /* A work that was withdrawn has not been launched. */
    const bool is_done = call->work.status == GEMMD_OK && call->work.launch_works > 0;
    log_wrong_result(call, services);
    close_early_copy(call);
    if (call->split != NULL)
        call_split_finish(call, services);
    if (call->has_device_memory)
        arena_free(device_arena(call->executor->device), call->work.device_offset);
    call->has_device_memory = false;
    call_device_discharge(call);
    pool_free(call->memory, call->body, call->body_capacity);
    call->body = NULL;
    pool_free(call->memory, call->scratch, call->scratch_bytes);
    call->scratch = NULL;
    client_memory_end(&call->client_memory, &call->work);
    call_residents_finish(&call->residents, services->tensors, is_done);
    admission_keep(&call->place, is_done && call->result != NULL ? call->result_bytes : 0);
}

void compute_call_close(struct compute_call *call, struct services *services)
{
    compute_call_finish(call, services);
    call_residents_close(&call->residents, services->tensors);
    pool_free(call->memory, call->result, call->header_bytes + call->result_bytes);
    call->result = NULL;
    admission_give(&call->place);
}
