#include "server/api/compute/call_operands.h"

#include <string.h>

#include "proto/body_front.h"
#include "proto/dtype.h"
#include "proto/size.h"
#include "server/api/compute/call_placement.h"
#include "server/api/services.h"

enum gemmd_error call_read_front(const struct compute_call *call, struct body_front *front,
                                 struct call_shapes *shapes, struct fault *fault)
{
    const struct call_operation *operation = call->operation;
    if (!call->shapes_inside)
        return operand_layout_bind(&call->layout, operation->operands, &call->request, front->bytes,
                                   front->length, shapes->operands.all, fault);
    shapes->request = call->request;
    return operation->read(&shapes->request, call->body_format, front, &shapes->operands, fault);
}

void call_point(struct compute_call *call, const union call_operands *operands)
{
    struct task *task = &call->work.task;
    for (uint32_t i = 0; i < call->operation->operands->count; i++) {
        const struct tensor *operand = &operands->all[i];
        if (operand->rank > 0 && operand->data != NULL)
            operation_point(task->operation, &task->problem, i, (void *)(uintptr_t)operand->data);
    }
}

/* ---- copies on the host ---- */

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

enum gemmd_error call_copies_open(struct compute_call *call, struct fault *fault)
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

enum gemmd_error call_copies_make(struct compute_call *call, union call_operands *operands,
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

bool call_copies_early(const struct compute_call *call)
{
    return call->executor->early_copy != NULL && call->body_sized &&
           call->body_capacity >= EARLY_COPY_BODY_BYTES;
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

void call_copy_early(struct compute_call *call, struct services *services,
                     const union call_request *request, const union call_operands *operands)
{
    union call_operands early = *operands;
    struct fault fault; /* ignored: compute_call_bind prepares the call again */
    if (!call->prepared && call_prepare(call, services, request, &fault) != GEMMD_OK)
        return;
    if (call->split != NULL) /* each device copies the operands of its part when it computes */
        return;
    leave_out_copies(call, &early);
    call_point(call, &early);
    call->early_copy =
        early_copy_open(call->executor->early_copy, &call->work, call->body, call->body_capacity);
    early_copy_received(call->early_copy, call->body_bytes);
}

static void call_look(struct compute_call *call, struct services *services)
{
    struct body_front front = {call->body, call->body_capacity, call->body_bytes, UINT64_MAX};
    struct call_shapes shapes;
    const enum gemmd_error code = call_read_front(call, &front, &shapes, NULL);
    if (code == GEMMD_OK)
        call_copy_early(call, services, call->shapes_inside ? &shapes.request : &call->request,
                        &shapes.operands);
    call->look_at_bytes = code == GEMMD_ERR_CONFLICT ? front.wanted : UINT64_MAX;
}

void call_look_begin(struct compute_call *call, struct services *services)
{
    if (call_copies_early(call))
        call_look(call, services);
}

void call_look_further(struct compute_call *call, struct services *services)
{
    if (call->body_bytes >= call->look_at_bytes)
        call_look(call, services);
}
