/* Inputs and outputs of an inference that lie in shared-memory regions. */
#include "proto/dtype.h"
#include "server/api/services.h"
#include "server/api/v2/infer_call.h"
#include "server/api/v2/region_endpoints.h"

/* Sets `*at` to the location of a part of a region, and makes the call hold the region's mapping.
 * `as_it_is`: the elements are not copied first, so they must be aligned. `on_device`: the region
 * may be memory of the GPU. */
static enum gemmd_error region_find_part(struct request *request, const char *what,
                                         const struct oip_region *part, enum gemmd_dtype dtype,
                                         bool as_it_is, bool on_device, unsigned char **at)
{
    struct region_owner owner;
    struct shm_mapping *mapping;
    struct fault *fault = &request->fault;
    const struct config *config = request->config;
    if (!config->shm_system && !config->shm_cuda)
        return fault_set(fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "shared memory is off (--shm-system, --shm-cuda); send tensors in the "
                         "body");
    enum gemmd_error code = region_owner_of(request, &owner);
    if (code == GEMMD_OK)
        code = regions_find(services_of(request)->regions, owner, part->name, &mapping, fault);
    if (code != GEMMD_OK)
        return code;
    code = client_memory_hold(&infer_of(request)->compute.client_memory, mapping, fault);
    if (code != GEMMD_OK)
        return code;
    if (shm_mapping_is_on_device(mapping) && !on_device)
        return fault_set(fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "input '%s' can't be in the GPU's memory, since the host has to read it; "
                         "send it in the body or in a system region",
                         what);
    const uint64_t alignment =
        as_it_is || shm_mapping_is_on_device(mapping) ? dtype_size(dtype) : 1;
    return client_memory_find(mapping, what, part->offset, part->bytes, alignment, at, fault);
}

enum gemmd_error infer_find_input(struct request *request, const struct oip_input *input,
                                  const struct model_tensor *expected, struct tensor *tensor)
{
    unsigned char *at = NULL;
    const bool checked = expected->is_checked;
    enum gemmd_error code =
        region_find_part(request, input->name, &input->region, tensor->dtype, false, !checked, &at);
    tensor->data = at;
    return code;
}

enum gemmd_error infer_place_output(struct request *request, const struct oip_output *asked,
                                    const struct model_tensor *tensor, enum gemmd_dtype dtype)
{
    struct client_memory *client_memory = &infer_of(request)->compute.client_memory;
    struct client_result *result =
        tensor->number == 1 ? &client_memory->lse : &client_memory->result;
    *result = (struct client_result){.wanted = true, .room_bytes = asked->region.bytes};
    return region_find_part(request, asked->name, &asked->region, dtype, true, true, &result->at);
}
