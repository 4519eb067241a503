#include "server/api/compute/compute_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/number.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/compute/call_placement.h"
#include "server/api/compute/call_sequence.h"
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

enum gemmd_error compute_call_settle(struct compute_call *call, struct services *services,
                                     const char *tenant, struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    struct resident **const residents[] = {&call->residents.a, &call->residents.b};
    enum gemmd_error code = GEMMD_OK;
    call->residents.tenant = tenant;
    for (uint32_t i = 0; i < 2 && code == GEMMD_OK; i++) {
        const char *field = operation->residents[i].name;
        const char *name = call_request_field(&call->request, operation->residents[i].at);
        if (field != NULL && name[0] != '\0' && *residents[i] == NULL)
            code =
                call_residents_acquire(services->tensors, field, name, tenant, residents[i], fault);
        if (code == GEMMD_OK && *residents[i] != NULL && !operation->residents[i].packed &&
            resident_packed(*residents[i]) != NULL)
            code = fault_set(fault, GEMMD_ERR_UNSUPPORTED, field,
                             "the tensor '%s' is packed weights, which can only be b of /gemm",
                             resident_name(*residents[i]));
    }
    const char *sequence = operation->sequence.at == 0
                               ? ""
                               : call_request_field(&call->request, operation->sequence.at);
    struct sequence_state state;
    if (code == GEMMD_OK && sequence[0] != '\0' && call->residents.sequence == NULL) {
        code =
            sequence_acquire(services->tensors, sequence, tenant, &call->residents.sequence, fault);
        tensor_store_count_use(services->tensors, code == GEMMD_OK);
        if (code != GEMMD_OK)
            snprintf(fault->field, sizeof fault->field, "sequence");
    }
    if (code == GEMMD_OK && call->residents.sequence != NULL) {
        sequence_state_of(services->tensors, call->residents.sequence, &state);
        call->residents.lengths = state.lengths;
    }
    if (code == GEMMD_OK)
        code = operation->settle(&call->request, &call->residents, call->body_format, fault);
    call->timeout_ms = *(const uint64_t *)call_request_field(&call->request, operation->timeout_at);
    call->priority = *(const uint32_t *)call_request_field(&call->request, operation->priority_at);
    return code;
}

/* ---- the operands in the body ---- */

/* The operands in the front of a body. */
struct call_shapes {
    union call_request request; /* completed with the shapes, if the body has the shapes inside */
    union call_operands operands;
};

/* Finds the operands in the front of a body, of which call_operation.read says what the front may
 * lack. The call is not changed. */
static enum gemmd_error call_read_front(const struct compute_call *call, struct body_front *front,
                                        struct call_shapes *shapes, struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    if (!call->shapes_inside)
        return operand_layout_bind(&call->layout, operation->operands, &call->request, front->bytes,
                                   front->length, shapes->operands.all, fault);
    shapes->request = call->request;
    return operation->read(&shapes->request, call->body_format, front, &shapes->operands, fault);
}

/* Points the problem at the operands that have data. */
static void call_point(struct compute_call *call, const union call_operands *operands)
{
    struct task *task = &call->work.task;
    for (uint32_t i = 0; i < call->operation->operands->count; i++) {
        const struct tensor *operand = &operands->all[i];
        if (operand->rank > 0 && operand->data != NULL)
            operation_point(task->operation, &task->problem, i, (void *)(uintptr_t)operand->data);
    }
}

/* ---- copies on the host ---- */

/* Copies on the host, in call->scratch, are made of two kinds of operands: of batches and C0 in
 * column-major order, and of operands whose elements are not aligned, if the kernel reads operands
 * in place. */

/* The alignment of the copies of operands in `scratch`. */
enum { COPY_ALIGNMENT = 64 };

/* Whether the kernel reads the operands in host memory, without a copy to the device. */
static bool is_read_in_place(const struct compute_call *call)
{
    return call->work.shared_launch ||
           device_info(call->executor->device)->backend == GEMM_BACKEND_CPU;
}

/* Takes memory for copies of operands, unless the call has as much already. */
static enum gemmd_error take_scratch(struct compute_call *call, uint64_t bytes, struct fault *fault)
{
    if (bytes <= call->scratch_bytes)
        return GEMMD_OK;
    pool_free(call->memory, call->scratch, call->scratch_bytes);
    call->scratch_bytes = bytes;
    call->scratch = pool_alloc(call->memory, bytes, fault);
    if (call->scratch == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    return GEMMD_OK;
}

/* The bytes that copies of a raw body's unaligned operands take. */
static uint64_t unaligned_bytes(const struct compute_call *call)
{
    const struct operand_layout *layout = &call->layout;
    uint64_t total = 0; /* all sizes together are below 2^64 */
    for (uint32_t i = 0; i < layout->count; i++) {
        const struct tensor *operand = &layout->tensors[i];
        const uint64_t at = call->client_memory.operands[i] != NULL
                                ? (uintptr_t)call->client_memory.operands[i]
                                : layout->offsets[i];
        if (operand->rank == 0 || at % dtype_size(operand->dtype) == 0)
            continue;
        total += operand->bytes;
        (void)size_align(total, COPY_ALIGNMENT, &total);
    }
    return total;
}

/* Takes the memory for the copies of a raw body's operands at the request's headers, where the
 * layout is known. */
static enum gemmd_error call_copies_open(struct compute_call *call, struct fault *fault)
{
    return is_read_in_place(call) ? take_scratch(call, unaligned_bytes(call), fault) : GEMMD_OK;
}

/* Copies to a GPU take operands of any alignment, so that only kernels that read operands in place
 * need aligned elements. */
static uint32_t copies_needed(const struct compute_call *call, const union call_operands *operands)
{
    const bool in_place = is_read_in_place(call);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < call->operation->operands->count; i++) {
        const struct tensor *operand = &operands->all[i];
        if (operand->rank > 0 &&
            (operand->fortran ||
             (in_place && (uintptr_t)operand->data % dtype_size(operand->dtype) != 0)))
            copies |= 1u << i;
    }
    return copies;
}

/* Copies what must be copied on the host, and points the operands' data at the copies. */
static enum gemmd_error call_copies_make(struct compute_call *call, union call_operands *operands,
                                         struct fault *fault)
{
    const uint32_t copies = copies_needed(call, operands);
    const uint32_t count = call->operation->operands->count;
    uint64_t total = 0, offset = 0;
    if (copies == 0)
        return GEMMD_OK;
    for (uint32_t i = 0; i < count; i++)
        if ((copies & 1u << i) != 0 && (!size_add(total, operands->all[i].bytes, &total) ||
                                        !size_align(total, COPY_ALIGNMENT, &total)))
            return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the operands' size overflows");
    const enum gemmd_error code = take_scratch(call, total, fault);
    if (code != GEMMD_OK)
        return code;
    for (uint32_t i = 0; i < count; i++) {
        struct tensor *operand = &operands->all[i];
        unsigned char *copy = call->scratch + offset;
        if ((copies & 1u << i) == 0)
            continue;
        if (operand->fortran)
            tensor_copy_row_major(operand, copy);
        else
            memcpy(copy, operand->data, operand->bytes);
        operand->fortran = false;
        operand->data = copy;
        offset += operand->bytes;
        (void)size_align(offset, COPY_ALIGNMENT, &offset); /* checked above */
    }
    return GEMMD_OK;
}

/* ---- copies to the device before the body is complete ---- */

bool compute_call_copies_early(const struct compute_call *call)
{
    return call->executor->early_copy != NULL && call->residents.sequence == NULL &&
           call->body_sized && call->body_capacity >= EARLY_COPY_BODY_BYTES;
}

/* Removes the data of operands that must be copied on the host first: their bytes in the body are
 * not the bytes that the device needs. */
static void leave_out_copies(const struct compute_call *call, union call_operands *operands)
{
    const uint32_t copies = copies_needed(call, operands);
    for (uint32_t i = 0; i < call->operation->operands->count; i++)
        if ((copies & 1u << i) != 0)
            operands->all[i].data = NULL;
}

enum gemmd_error compute_call_copy_early(struct compute_call *call, struct services *services,
                                         const union call_request *request,
                                         const union call_operands *operands, struct fault *fault)
{
    union call_operands early = *operands;
    const enum gemmd_error code = call_prepare(call, services, request, fault);
    /* Each device of a divided call copies the operands of its subproblem when it computes. */
    if (code != GEMMD_OK || call->split != NULL)
        return code;
    leave_out_copies(call, &early);
    call_point(call, &early);
    call->early_copy =
        early_copy_open(call->executor->early_copy, &call->work, call->body, call->body_capacity);
    early_copy_received(call->early_copy, call->body_bytes);
    return GEMMD_OK;
}

/* Looks for the operands, and prepares the call and starts the early copy if they were found. */
static enum gemmd_error call_look(struct compute_call *call, struct services *services,
                                  struct fault *fault)
{
    struct body_front front = {call->body, call->body_capacity, call->body_bytes, UINT64_MAX};
    struct call_shapes shapes;
    const enum gemmd_error code = call_read_front(call, &front, &shapes, NULL);
    call->look_at_bytes = code == GEMMD_ERR_CONFLICT ? front.wanted : UINT64_MAX;
    if (code != GEMMD_OK)
        return GEMMD_OK; /* compute_call_bind refuses a malformed body when it is complete */
    return compute_call_copy_early(call, services,
                                   call->shapes_inside ? &shapes.request : &call->request,
                                   &shapes.operands, fault);
}

/* ---- the headers ---- */

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
    return queue_admit(call->executor->queue, call->work.tenant, call->queue_bytes,
                       &call->reservation, fault);
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

enum gemmd_error compute_call_look_ahead(struct compute_call *call, struct services *services,
                                         struct fault *fault)
{
    return compute_call_copies_early(call) ? call_look(call, services, fault) : GEMMD_OK;
}

/* ---- the body ---- */

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
        enum gemmd_error code = grow_body(call, needed, fault);
        if (code != GEMMD_OK)
            return code;
    }
    memcpy(call->body + call->body_bytes, bytes, length);
    call->body_bytes = needed;
    if (call->early_copy != NULL)
        early_copy_received(call->early_copy, needed);
    else if (needed >= call->look_at_bytes)
        return call_look(call, services, fault);
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
            work->join_key = 0;
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
    if (code == GEMMD_OK)
        code = call_prepare(call, services, &call->request, fault);
    if (code == GEMMD_OK && call->client_memory.mapping_count > 0)
        code = client_memory_check_results(&call->client_memory, operands->all,
                                           operation->operands->count, call->c.bytes,
                                           call->lse.bytes, fault);
    if (code == GEMMD_OK)
        code = call_copies_make(call, operands, fault);
    if (code == GEMMD_OK && call->residents.sequence != NULL)
        code = call_sequence_bind(call, operands, fault);
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

/* Logs a result that failed verification, even if the client has disconnected. */
static void log_wrong_result(const struct compute_call *call, const struct services *services)
{
    const struct task *task = &call->work.task;
    const struct operation *operation = task->operation;
    const char *const *names = operation->length_names;
    uint64_t lengths[OPERATION_LENGTHS];
    operation->lengths(&task->problem, lengths);
    log_event(services->log, CONFIG_LOG_ERROR,
              "wrong result: request %s, %s of %s to %s, %s %" PRIu64 ", %s %" PRIu64
              ", %s %" PRIu64 ", kernel %s, device %s (%d): its error is %.3g times what rounding "
              "explains",
              call->request_id != NULL ? call->request_id : "", operation->name,
              dtype_name(operation->dtype(&task->problem)), dtype_name(call->c.dtype), names[0],
              lengths[0], names[1], lengths[1], names[2], lengths[2], work_kernel_name(&call->work),
              device_info(call->executor->device)->name, device_info(call->executor->device)->index,
              call->work.residual);
}

void compute_call_finish(struct compute_call *call, struct services *services)
{
    /* A work that was withdrawn has not been launched. */
    const bool is_done = call->work.status == GEMMD_OK && call->work.launch_works > 0;
    if (call->is_finished)
        return;
    call->is_finished = true;
    if (call->work.status == GEMMD_ERR_VERIFICATION)
        log_wrong_result(call, services);
    if (call->early_copy != NULL)
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
    call_sequence_end(call);
    if (call->client_memory.mapping_count > 0)
        client_memory_end(&call->client_memory, &call->work);
    if (call_residents_any(&call->residents))
        call_residents_finish(&call->residents, services->tensors, is_done);
    admission_keep(&call->reservation, is_done && call->result != NULL ? call->result_bytes : 0);
}

void compute_call_close(struct compute_call *call, struct services *services)
{
    compute_call_finish(call, services);
    if (call_residents_any(&call->residents))
        call_residents_close(&call->residents, services->tensors);
    pool_free(call->memory, call->result, call->header_bytes + call->result_bytes);
    call->result = NULL;
    admission_give(&call->reservation);
}

/* ---- what is told of a result ---- */

void compute_call_headers(const struct compute_call *call, const struct compute_times *times,
                          struct headers *headers)
{
    char text[256];

    if (call->residents.stored != NULL) {
        snprintf(text, sizeof text, "/tensors/%s", resident_name(call->residents.stored));
        headers_add(headers, "Content-Type", "application/json");
        headers_add(headers, "Location", text);
    } else {
        headers_add(headers, "Content-Type", format_media_type(call->answer_format));
    }
    compute_call_product_headers(call, times, headers);
}

void compute_call_product_headers(const struct compute_call *call,
                                  const struct compute_times *times, struct headers *headers)
{
    const struct work *work = &call->work;
    const struct header_stage stages[] = {
        {"recv;dur=", times->received_ns - times->started_ns},
        {", queue;dur=", work->started_ns - work->queued_ns},
        {", h2d;dur=", work->h2d_ns},
        {", kernel;dur=", work->kernel_ns},
        {", d2h;dur=", work->d2h_ns},
        {", total;dur=", times->answered_ns - times->started_ns},
    };
    char text[256];

    tensor_shape_text(&call->c, text, sizeof text);
    headers_add(headers, "Gemmd-Shape", text);
    headers_add(headers, "Gemmd-Dtype", dtype_name(call->c.dtype));
    headers_add(headers, "Gemmd-Kernel", work_kernel_name(work));
    *decimal_u64(text, work->launch_works) = '\0';
    headers_add(headers, "Gemmd-Batch", text);
    if (call->devices > 1) {
        *decimal_u64(text, call->devices) = '\0';
        headers_add(headers, "Gemmd-Devices", text);
    }
    headers_add_timing(headers, stages, sizeof stages / sizeof *stages);
    if (work->verify == WORK_VERIFY_ASKED) {
        snprintf(text, sizeof text, "pass; residual=%.3g", work->residual);
        headers_add(headers, "Gemmd-Verify", text);
    }
}

enum gemmd_dtype compute_call_describe(const struct compute_call *call,
                                       const struct call_operation *operation, bool work_ended,
                                       struct log_access *entry)
{
    const struct work *work = &call->work;
    entry->kernel = work_kernel_name(work);
    if (work_ended) {
        entry->shared = work->launch_works;
        entry->queued_ns = work->queued_ns;
        entry->device_ns = work->started_ns;
        if (work->started_ns > work->queued_ns)
            entry->queue_ns = work->started_ns - work->queued_ns;
        entry->h2d_ns = work->h2d_ns;
        entry->kernel_ns = work->kernel_ns;
        entry->d2h_ns = work->d2h_ns;
    }
    if (call->operation != NULL)
        operation = call->operation;
    return operation->describe(&call->request, entry);
}
