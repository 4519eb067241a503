#include "server/api/compute/call_prepare.h"

#include <string.h>

#include "proto/size.h"
#include "proto/size_text.h"
#include "server/api/compute/call_device.h"
#include "server/api/compute/call_host_bytes.h"
#include "server/api/compute/call_limits.h"
#include "server/api/compute/call_split.h"
#include "server/api/compute/call_state.h"
#include "server/api/services.h"

/* Refuses a result that is larger than --max-result. */
static enum gemmd_error refuse_result(const struct compute_call *call, uint64_t limit,
                                      struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL, "the result would be %s; --max-result is %s",
                     size_text(call->result_bytes).text, size_text(limit).text);
}

/* Computes the size of the results, and refuses results that are too large. */
static enum gemmd_error check_result(struct compute_call *call, struct fault *fault)
{
    const uint64_t limit = call->config->max_result_bytes;
    if (!call_result_size(call))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result's size does not fit in 64 bits");
    if (call->sends_result && call->result_bytes > limit)
        return refuse_result(call, limit, fault);
    return GEMMD_OK;
}

/* Adds the results to the reservation of a body that has its shapes inside. The reservation of a
 * raw body has included them from the start. A stored result is not part of a reservation. */
static enum gemmd_error complete_reservation(struct compute_call *call, struct services *services,
                                             struct fault *fault)
{
    const uint64_t body_bytes = call->body_sized ? call->body_capacity : call->body_bytes;
    uint64_t bytes;
    if (!size_add(body_bytes, call->sends_result ? call->result_bytes : 0, &bytes))
        bytes = UINT64_MAX;
    return call_grow_reservation(call, services, bytes, fault);
}

/* Whether memory that the client shares lies on another device than the one that computes. */
static bool shares_elsewhere(const struct compute_call *call)
{
    const struct device *shared = client_memory_device(&call->client_memory);
    return shared != NULL && shared != call->executor->device;
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

/* Counts the operations of the work, and refuses a work that has too many. */
static enum gemmd_error count_work(struct compute_call *call, struct fault *fault)
{
    const uint64_t limit = call->config->max_work;
    call->work.flops = work_flops(&call->work);
    call->work.share_flops = work_share_flops(&call->work);
    if (limit == 0 || call->work.flops <= (double)limit)
        return GEMMD_OK;
    return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                     "the request would take %s; --max-work is %s (floating-point operations)",
                     size_work_text(call->work.flops).text, size_work_text((double)limit).text);
}

/* Takes pinned memory for the header of the answer's format and the results, and writes the header.
 */
static enum gemmd_error take_result(struct compute_call *call, struct fault *fault)
{
    char header[SAFETENSORS_HEADER_MAX];
    uint64_t block_bytes;
    const uint32_t format_bytes = call->operation->header(call, header);
    call->header_bytes = call->front_bytes + format_bytes;
    if (!size_add(call->header_bytes, call->result_bytes, &block_bytes))
        return refuse_result(call, call->config->max_result_bytes, fault);
    call->result = pool_alloc(call->memory, block_bytes, fault);
    if (call->result == NULL)
        return GEMMD_ERR_OUT_OF_MEMORY;
    memcpy(call->result + call->front_bytes, header, format_bytes);
    call->operation->point_result(call, call->result + call->header_bytes);
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

/* Chooses the kernel, and takes memory, on the device that call_device_choose has chosen. */
static enum gemmd_error prepare_call(struct compute_call *call, struct services *services,
                                     struct fault *fault)
{
    struct work *work = &call->work;
    enum gemmd_error code = check_result(call, fault);
    if (code == GEMMD_OK && call->shapes_inside)
        code = complete_reservation(call, services, fault);
    work->own_launch = shares_elsewhere(call);
    if (code == GEMMD_OK)
        code = call_residents_bring(&call->residents, services->tensors,
                                    executors_number(&services->executors, call->executor), work,
                                    fault);
    if (code == GEMMD_OK && call_is_stored(call))
        code = reserve_stored(call, services, fault);
    if (code == GEMMD_OK)
        code = call->operation->choose(call, services, fault);
    if (code == GEMMD_OK)
        code = count_work(call, fault);
    if (code == GEMMD_OK && call->sends_result)
        code = take_result(call, fault);
    if (code != GEMMD_OK)
        return code;
    if (!call->sends_result && !call_is_stored(call))
        call->operation->point_result(call, NULL);
    call_split_open(call, services);
    if (call->split == NULL && work->device_bytes > 0)
        return take_device_memory(call, fault);
    return GEMMD_OK;
}

/* Gives back what prepare_call has taken before it failed. */
static void undo_prepare(struct compute_call *call, struct services *services)
{
    call->has_result = false; /* the next attempt may have other shapes */
    /* Device memory needs no undo, because it is taken last. */
    call_residents_close(&call->residents, services->tensors);
    pool_free(call->memory, call->result, call->header_bytes + call->result_bytes);
    call->result = NULL;
}

/* Prepares the call on the device that call_device_choose chooses. If that device lacks memory, the
 * other devices are tried. */
static enum gemmd_error prepare_somewhere(struct compute_call *call, struct services *services,
                                          struct fault *fault)
{
    const struct executors *executors = &services->executors;
    uint32_t full = 0;
    /* The body may have named resident operands and shared memory (inference protocol), and other
     * devices may have become free while the body arrived. */
    if (call->shapes_inside) {
        call_device_discharge(call);
        call->executor = call_device_choose(call, services, full);
    }
    for (;;) {
        const enum gemmd_error code = prepare_call(call, services, fault);
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
                              struct fault *fault)
{
    const enum gemmd_error code = prepare_somewhere(call, services, fault);
    call->prepared = code == GEMMD_OK;
    if (call->split != NULL) {
        call_device_discharge(call); /* the executors of the parts are charged instead */
    } else if (call->prepared) {
        const struct call_host_bytes bytes = call_host_bytes(call);
        call_device_charge(call, services, call->work.flops,
                           (uint64_t)(bytes.whole + bytes.divided));
    }
    return code;
}
