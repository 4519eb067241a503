#include "server/api/compute/compute_call.h"

#include <inttypes.h>
#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/compute/call_device.h"
#include "server/api/compute/call_limits.h"
#include "server/api/compute/call_prepare.h"
#include "server/api/compute/call_split.h"
#include "server/api/compute/operand_copies.h"
#include "server/api/services.h"

/* The first memory of a self-describing body of unknown length, which doubles when it is full. */
static const uint64_t FIRST_BYTES = 64 * 1024;

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
static enum gemmd_error check_no_bytes(struct compute_call *call, struct fault *fault)
{
    static const unsigned char nothing;
    struct body_front front = {.bytes = &nothing};
    union call_operands none;
    const union call_request request = call->request;
    const enum gemmd_error code = call->operation->read(call, &front, &none, fault);
    call->request = request;
    return code;
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
    /* A result whose size overflows is left out here; call_prepare refuses such a result.
     */
    if (!call->shapes_inside && call_result_size(call) && call->sends_result &&
        !size_add(body_bytes, call->result_bytes, &call->queue_bytes))
        call->queue_bytes = body_bytes;
    const enum gemmd_error code =
        queue_reserve(call->executor->queue, call->work.tenant, call->queue_bytes, fault);
    call->has_reservation = code == GEMMD_OK;
    return code;
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
        code = call_prepare(call, services, fault);
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
    return call->shapes_inside ? GEMMD_OK : operand_copies_open(call, fault);
}

/* Enlarges the memory of a body of unknown length, at least to `needed` bytes. */
static enum gemmd_error grow_body(struct compute_call *call, struct services *services,
                                  uint64_t needed, struct fault *fault)
{
    uint64_t limit = call->config->max_body_bytes, capacity = call->body_capacity;
    if (needed > limit)
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the body is longer than --max-body, which is %s", size_text(limit).text);
    while (capacity < needed)
        capacity = capacity > limit / 2 ? limit : capacity * 2;
    enum gemmd_error code = call_grow_reservation(call, services, capacity, fault);
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

enum gemmd_error compute_call_append(struct compute_call *call, struct services *services,
                                     const void *bytes, uint64_t length, struct fault *fault)
{
    uint64_t needed;
    if (!size_add(call->body_bytes, length, &needed))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the body's size overflows");
    if (needed > call->body_capacity) {
        if (!call->shapes_inside)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the body has more than the %" PRIu64 " bytes that the operands take",
                             call->body_capacity);
        enum gemmd_error code = grow_body(call, services, needed, fault);
        if (code != GEMMD_OK)
            return code;
    }
    memcpy(call->body + call->body_bytes, bytes, length);
    call->body_bytes = needed;
    early_copy_received(call->early_copy, needed);
    return GEMMD_OK;
}

/* Finds the operands in the complete body. */
static enum gemmd_error find_operands(struct compute_call *call, union call_operands *operands,
                                      struct fault *fault)
{
    if (!call->shapes_inside) {
        const enum gemmd_error code =
            operand_layout_bind(&call->layout, call->operation->operands, &call->request,
                                call->body, call->body_bytes, operands->all, fault);
        if (call->client_memory.mapping_count > 0)
            client_memory_point(&call->client_memory, operands->all, call->layout.count);
        return code;
    }
    struct body_front body = {
        .bytes = call->body, .length = call->body_bytes, .received = call->body_bytes};
    return call->operation->read(call, &body, operands, fault);
}

enum gemmd_error compute_call_bind(struct compute_call *call, struct services *services,
                                   struct fault *fault)
{
    union call_operands operands;
    enum gemmd_error code = find_operands(call, &operands, fault);
    return code == GEMMD_OK ? compute_call_bind_operands(call, services, &operands, fault) : code;
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
        operation->check != NULL ? operation->check(call, operands, fault) : GEMMD_OK;
    if (code == GEMMD_OK && !call->prepared)
        code = call_prepare(call, services, fault);
    if (code == GEMMD_OK && call->client_memory.mapping_count > 0)
        code = client_memory_check_results(&call->client_memory, operands->all,
                                           operation->operands->count, call->c.bytes,
                                           call->lse.bytes, fault);
    if (code == GEMMD_OK)
        code = operand_copies_make(call, operands, fault);
    if (code != GEMMD_OK)
        return code;
    operation->point(call, operands);
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

struct admission_place compute_call_keep_place(struct compute_call *call, struct services *services)
{
    if (!call->has_reservation || call->result == NULL || call->work.status != GEMMD_OK)
        return (struct admission_place){0};
    call->has_reservation = false;
    return admission_keep(services->admission, call->work.tenant, call->queue_bytes,
                          call->result_bytes);
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
    log_wrong_result(call, services);
    close_early_copy(call);
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
    /* A work that was withdrawn has not been launched. */
    call_residents_finish(&call->residents, services->tensors,
                          call->work.status == GEMMD_OK && call->work.launch_works > 0);
    if (call->has_reservation)
        admission_release(services->admission, call->work.tenant, call->queue_bytes);
    call->has_reservation = false;
}

void compute_call_close(struct compute_call *call, struct services *services)
{
    compute_call_finish(call, services);
    call_residents_close(&call->residents, services->tensors);
    pool_free(call->memory, call->result, call->header_bytes + call->result_bytes);
    call->result = NULL;
}
