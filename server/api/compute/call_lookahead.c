#include "server/api/compute/call_lookahead.h"

#include "proto/body_front.h"
#include "server/api/compute/call_prepare.h"
#include "server/api/compute/operand_copies.h"
#include "server/api/services.h"

bool call_lookahead_pays(const struct compute_call *call)
{
    return call->executor->early_copy != NULL && call->body_sized &&
           call->body_capacity >= EARLY_COPY_BODY_BYTES;
}

/* Removes the data of operands that must be copied on the host first: their bytes in the body are
 * not the bytes that the device needs. */
static void leave_out_copies(const struct compute_call *call, union call_operands *operands)
{
    const uint32_t copies = operand_copies_needed(call, operands);
    for (uint32_t i = 0; i < call->operation->operands->count; i++)
        if ((copies & 1u << i) != 0)
            operands->all[i].data = NULL;
}

void call_lookahead_start(struct compute_call *call, struct services *services,
                          const union call_operands *operands)
{
    union call_operands early = *operands;
    struct fault fault; /* ignored: compute_call_bind prepares the call again */
    if (!call->prepared && call_prepare(call, services, &fault) != GEMMD_OK)
        return;
    if (call->split != NULL) /* each device copies the operands of its part when it computes */
        return;
    leave_out_copies(call, &early);
    call->operation->point(call, &early);
    call->early_copy =
        early_copy_open(call->executor->early_copy, &call->work, call->body, call->body_capacity);
    early_copy_received(call->early_copy, call->body_bytes);
}

/* Finds the operands in the part of the body that has arrived. */
static enum gemmd_error find_operands_early(struct compute_call *call, struct body_front *front,
                                            union call_operands *operands)
{
    if (call->shapes_inside)
        return call->operation->read(call, front, operands, NULL);
    return operand_layout_bind(&call->layout, call->operation->operands, &call->request,
                               front->bytes, front->length, operands->all, NULL);
}

static void call_lookahead_look(struct compute_call *call, struct services *services)
{
    struct body_front front = {call->body, call->body_capacity, call->body_bytes, UINT64_MAX};
    union call_operands operands;
    /* Reading the front may change the request; compute_call_bind needs the request unchanged. */
    const union call_request request = call->request;
    const enum gemmd_error code = find_operands_early(call, &front, &operands);
    if (code == GEMMD_OK)
        call_lookahead_start(call, services, &operands);
    call->look_at_bytes = code == GEMMD_ERR_CONFLICT ? front.wanted : UINT64_MAX;
    call->request = request;
}

void call_lookahead_open(struct compute_call *call, struct services *services)
{
    if (call_lookahead_pays(call))
        call_lookahead_look(call, services);
}

void call_lookahead_arrived(struct compute_call *call, struct services *services)
{
    if (call->body_bytes >= call->look_at_bytes)
        call_lookahead_look(call, services);
}
