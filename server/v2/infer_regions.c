/* Inputs and outputs in shared memory regions. */
#include "proto/dtype.h"
#include "server/daemon.h"
#include "server/v2/infer.h"
#include "server/v2/regions.h"

/* The region's part, in use from here on. */
static enum gemmd_error find(struct request *request, const char *what,
                             const struct oip_region *part, enum gemmd_dtype dtype, bool as_it_is,
                             unsigned char **at)
{
    struct region_owner owner;
    struct shared_memory *memory;
    struct fault *fault = &request->fault;
    const struct config *config = &request->daemon->config;
    if (!config->shm_system && !config->shm_cuda)
        return fault_set(fault, GEMMD_ERR_NOT_IMPLEMENTED, NULL,
                         "shared memory is off (--shm-system, --shm-cuda); send tensors in the "
                         "body");
    enum gemmd_error code = region_owner_of(request, &owner);
    if (code == GEMMD_OK)
        code = regions_find(request->daemon->regions, owner, part->name, &memory, fault);
    if (code != GEMMD_OK)
        return code;
    code = shared_places_hold(&request->call.places, memory, fault);
    if (code != GEMMD_OK)
        return code;
    const uint64_t alignment = as_it_is || shared_is_on_device(memory) ? dtype_size(dtype) : 1;
    return shared_places_find(memory, what, part->offset, part->bytes, alignment, at, fault);
}

enum gemmd_error infer_find_input(struct request *request, const struct oip_input *input,
                                  const struct model_tensor *expected, struct tensor *tensor)
{
    unsigned char *at = NULL;
    /* They say what is read, and a client can write to its memory at any time. */
    if (expected->role == MODEL_LENS_Q || expected->role == MODEL_LENS_KV)
        return fault_set(&request->fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "input '%s' can't be in shared memory; send it in the body", input->name);
    enum gemmd_error code = find(request, input->name, &input->region, tensor->dtype, false, &at);
    tensor->data = at;
    return code;
}

enum gemmd_error infer_place_output(struct request *request, const struct oip_output *asked,
                                    const struct model_tensor *tensor)
{
    struct shared_places *places = &request->call.places;
    if (request->infer->asked.output_count > 1 || tensor->role == MODEL_LSE)
        return fault_set(&request->fault, GEMMD_ERR_UNSUPPORTED, NULL,
                         "output '%s' can't be in shared memory here: only one that is asked for "
                         "alone, and not LSE",
                         asked->name);
    places->has_result = true;
    places->result_room = asked->region.bytes;
    return find(request, asked->name, &asked->region, infer_dtype(request, tensor), true,
                &places->result);
}
