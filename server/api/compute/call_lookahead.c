#include "server/api/compute/call_lookahead.h"

#include "proto/body_front.h"
#include "server/api/services.h"

bool call_lookahead_pays(const struct compute_call *call, const struct services *services)
{
    return services->early_copy != NULL && call->body_sized &&
           call->body_capacity >= EARLY_COPY_BODY_BYTES;
}

/* What has to be copied first has no place that could be copied from early. */
static void leave_out_copies(const struct compute_call *call, struct services *services,
                             struct call_operands *operands)
{
    struct tensor *all[CLIENT_MEMORY_OPERANDS];
    const uint32_t count = call->operation->list(operands, all);
    for (uint32_t i = 0; i < count; i++)
        if (compute_call_needs_copy(call, services, all[i]))
            all[i]->data = NULL;
}

void call_lookahead_start(struct compute_call *call, struct services *services,
                          const struct call_operands *operands)
{
    struct call_operands there = *operands;
    struct fault fault; /* for nobody: it is tried again when the body is complete */
    call->operation->settle_operands(call, operands);
    if (!call->prepared && compute_call_prepare(call, services, &fault) != GEMMD_OK)
        return;
    leave_out_copies(call, services, &there);
    call->operation->point(call, &there);
    call->early_copy =
        early_copy_open(services->early_copy, &call->work, call->body, call->body_capacity);
    early_copy_received(call->early_copy, call->body_bytes);
}

static void look(struct compute_call *call, struct services *services)
{
    struct body_front front = {call->body, call->body_capacity, call->body_bytes, UINT64_MAX};
    struct call_operands operands;
    /* The complete body is read with the request as it is. */
    const struct gemm_request gemm = call->gemm;
    const struct attention_request attention = call->attention;
    const enum gemmd_error code = call->operation->look(call, &front, &operands);
    if (code == GEMMD_OK)
        call_lookahead_start(call, services, &operands);
    call->look_at_bytes = code == GEMMD_ERR_CONFLICT ? front.wanted : UINT64_MAX;
    call->gemm = gemm;
    call->attention = attention;
}

void call_lookahead_open(struct compute_call *call, struct services *services)
{
    if (call_lookahead_pays(call, services))
        look(call, services);
}

void call_lookahead_arrived(struct compute_call *call, struct services *services)
{
    if (call->body_bytes >= call->look_at_bytes)
        look(call, services);
}
