#include "server/api/compute/compute_memory.h"

#include "proto/dtype.h"
#include "proto/memory_header.h"
#include "server/api/compute/compute_request.h"
#include "server/api/services.h"
#include "server/http/connection.h"
#include "server/http/request.h"
#include "server/shm/shm_store.h"

/* Says why the connection has no memory. */
static enum gemmd_error refuse_no_memory(struct request *request)
{
    const struct shm_offer *offer = request->connection->memory;
    if (!request->config->shm_memfd)
        return fault_set(&request->fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "shared memory of connections is off (--shm-memfd)");
    if (offer == NULL)
        return fault_set(&request->fault, GEMMD_ERR_MALFORMED, NULL,
                         MEMORY_HEADER " is for connections over a Unix socket whose first line is "
                                       "empty and has one memfd with it");
    request->fault = offer->fault;
    return offer->fault.code;
}

static enum gemmd_error find_shared_operand(struct compute_call *call, struct shm_mapping *mapping,
                                            uint32_t operand,
                                            const struct memory_location *location,
                                            struct fault *fault)
{
    unsigned char *at;
    enum gemmd_error code = client_memory_find(mapping, location->name, location->offset,
                                               call->layout.tensors[operand].bytes, 1, &at, fault);
    if (code != GEMMD_OK)
        return code;
    call->client_memory.operands[operand] = at;
    operand_layout_leave_out(&call->layout, operand);
    return GEMMD_OK;
}

/* The name of an operand in Gemmd-Memory. NULL: the request has no such operand, or the operand can
 * only be sent in the body. */
static const char *operand_name(const struct compute_call *call, uint32_t operand)
{
    return call->layout.tensors[operand].rank > 0
               ? call->operation->operands->operands[operand].memory_name
               : NULL;
}

static enum gemmd_error find_shared_result(struct compute_call *call, struct shm_mapping *mapping,
                                           const struct memory_location *location,
                                           struct fault *fault)
{
    struct client_memory *client_memory = &call->client_memory;
    if (compute_call_store(call)[0] != '\0')
        return fault_set(fault, GEMMD_ERR_MALFORMED, "store",
                         "the result can be stored or be in the shared memory, not both");
    call->sends_lse = false;
    if (!call->operation->result(call))
        return fault_set(fault, GEMMD_ERR_TOO_LARGE, NULL,
                         "the result's size does not fit in 64 bits");
    client_memory->result = (struct client_result){.wanted = true, .room_bytes = call->c.bytes};
    return client_memory_find(mapping, location->name, location->offset, call->c.bytes,
                              dtype_size(call->c.dtype), &client_memory->result.at, fault);
}

enum gemmd_error compute_memory_open(struct request *request)
{
    struct compute_call *call = &((struct compute_request *)request->call)->call;
    struct fault *fault = &request->fault;
    const struct shm_offer *offer = request->connection->memory;
    struct shm_mapping *mapping = offer != NULL ? offer->mapping : NULL;
    struct memory_locations locations;
    const char *header = request_header(request, MEMORY_HEADER);
    if (header == NULL)
        return GEMMD_OK;
    if (mapping == NULL)
        return refuse_no_memory(request);
    enum gemmd_error code = memory_header_read(header, &locations, fault);
    if (code != GEMMD_OK)
        return code;
    if (call->body_format != FORMAT_RAW)
        return fault_set(fault, GEMMD_ERR_MEDIA_TYPE, NULL,
                         "operands in shared memory are raw: Content-Type has to be "
                         "application/octet-stream");
    shm_mapping_hold(mapping);
    code = client_memory_hold(&call->client_memory, mapping, fault);

    uint32_t used = 0;
    for (uint32_t i = 0; i < call->layout.count && code == GEMMD_OK; i++) {
        const char *name = operand_name(call, i);
        const struct memory_location *location =
            name != NULL ? memory_locations_find(&locations, name) : NULL;
        if (location == NULL)
            continue; /* the operand is in the body */
        used++;
        code = find_shared_operand(call, mapping, i, location, fault);
    }
    const struct memory_location *result =
        memory_locations_find(&locations, call->operation->result_name);
    if (code == GEMMD_OK && result != NULL)
        code = find_shared_result(call, mapping, result, fault);
    if (code == GEMMD_OK && used + (result != NULL) < locations.count)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         MEMORY_HEADER " names something that this request does not have, or that "
                                       "can only come in the body");
    return code;
}
