#include "server/api/compute/client_memory.h"

#include <inttypes.h>

static enum gemmd_error mapping_shortened(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the shared memory has been made shorter than it was when it was shared");
}

enum gemmd_error client_memory_hold(struct client_memory *client_memory,
                                    struct shm_mapping *mapping, struct fault *fault)
{
    if (client_memory->mapping_count == CLIENT_MEMORY_MAX) {
        shm_mapping_release(mapping);
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the request uses more than %d mappings of shared memory",
                         CLIENT_MEMORY_MAX);
    }
    client_memory->mappings[client_memory->mapping_count++] = mapping;
    client_memory->on_device |= shm_mapping_is_on_device(mapping);
    return shm_mapping_is_whole(mapping) ? GEMMD_OK : mapping_shortened(fault);
}

const struct device *client_memory_device(const struct client_memory *client_memory)
{
    if (!client_memory->on_device)
        return NULL;
    for (uint32_t i = 0; i < client_memory->mapping_count; i++)
        if (shm_mapping_is_on_device(client_memory->mappings[i]))
            return shm_mapping_device(client_memory->mappings[i]);
    return NULL;
}

enum gemmd_error client_memory_find(const struct shm_mapping *mapping, const char *what,
                                    uint64_t offset, uint64_t bytes, uint64_t alignment,
                                    unsigned char **at, struct fault *fault)
{
    *at = shm_mapping_at(mapping, offset, bytes);
    if (*at == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: %" PRIu64 " bytes from offset %" PRIu64
                         " on are not in the shared memory, which has %" PRIu64 " bytes",
                         what, bytes, offset, shm_mapping_bytes(mapping));
    if ((uintptr_t)*at % alignment != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: its offset %" PRIu64 " is not a multiple of the %" PRIu64
                         " bytes of an element",
                         what, offset, alignment);
    return GEMMD_OK;
}

void client_memory_point(const struct client_memory *client_memory, struct tensor *operands,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (client_memory->operands[i] != NULL)
            operands[i].data = client_memory->operands[i];
}

static bool ranges_overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t a_start = (uintptr_t)a, b_start = (uintptr_t)b;
    return a_start < b_start + b_bytes && b_start < a_start + a_bytes;
}

static enum gemmd_error client_memory_check_result(const struct client_result *result,
                                                   uint64_t bytes, const struct tensor *operands,
                                                   uint32_t count, struct fault *fault)
{
    if (!result->wanted)
        return GEMMD_OK;
    if (bytes > result->room_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the result takes %" PRIu64 " bytes; its shared memory has %" PRIu64,
                         bytes, result->room_bytes);
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].rank > 0 &&
            ranges_overlap(result->at, bytes, operands[i].data, operands[i].bytes))
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the result would overwrite an operand in the shared memory");
    return GEMMD_OK;
}

enum gemmd_error client_memory_check_results(const struct client_memory *client_memory,
                                             const struct tensor *operands, uint32_t count,
                                             uint64_t result_bytes, uint64_t lse_bytes,
                                             struct fault *fault)
{
    const struct client_result *result = &client_memory->result, *lse = &client_memory->lse;
    enum gemmd_error code =
        client_memory_check_result(result, result_bytes, operands, count, fault);
    if (code == GEMMD_OK)
        code = client_memory_check_result(lse, lse_bytes, operands, count, fault);
    if (code == GEMMD_OK && result->wanted && lse->wanted &&
        ranges_overlap(result->at, result_bytes, lse->at, lse_bytes))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the results would overwrite each other in the shared memory");
    return code;
}

uint64_t client_memory_bytes(const struct client_memory *client_memory,
                             const struct tensor *operands, uint32_t count)
{
    uint64_t bytes = 0; /* cannot overflow: all of the memory is mapped */
    for (uint32_t i = 0; i < count; i++)
        if (client_memory->operands[i] != NULL)
            bytes += operands[i].bytes;
    return bytes;
}

void client_memory_end(struct client_memory *client_memory, struct work *work)
{
    for (uint32_t i = 0; i < client_memory->mapping_count; i++) {
        /* GEMMD_ERR_INTERNAL: a shortened mapping may be the reason why verification has failed. */
        if ((work->status == GEMMD_OK || work->status == GEMMD_ERR_INTERNAL) &&
            !shm_mapping_is_whole(client_memory->mappings[i]))
            work->status = mapping_shortened(&work->fault);
        shm_mapping_release(client_memory->mappings[i]);
    }
    client_memory->mapping_count = 0;
}
