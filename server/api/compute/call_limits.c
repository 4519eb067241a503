#include "server/api/compute/call_limits.h"

#include "server/api/compute/call_state.h"
#include "server/api/services.h"

bool call_is_stored(const struct compute_call *call)
{
    return compute_call_store(call)[0] != '\0';
}

bool call_result_size(struct compute_call *call)
{
    if (call->has_result)
        return true;
    call->has_result = call->operation->result(call);
    call->sends_result = call->has_result && !call_is_stored(call) && call->result_bytes > 0;
    return call->has_result;
}

enum gemmd_error call_grow_reservation(struct compute_call *call, struct services *services,
                                       uint64_t bytes, struct fault *fault)
{
    if (bytes <= call->queue_bytes)
        return GEMMD_OK;
    enum gemmd_error code = admission_grow(services->admission, call->work.tenant,
                                           call->queue_bytes, bytes - call->queue_bytes, fault);
    if (code == GEMMD_OK)
        call->queue_bytes = bytes;
    return code;
}
