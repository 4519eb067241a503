#include "server/api/compute/client_memory.h"

#include <inttypes.h>

static enum gemmd_error cut_short(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the shared memory has been made shorter than it was when it was shared");
}

enum gemmd_error client_memory_hold(struct client_memory *places, struct shm_mapping *memory,
                                    struct fault *fault)
{
    if (places->memory_count == CLIENT_MEMORY_MAX) {
        shm_mapping_release(memory);
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the request uses more than %d memories",
                         CLIENT_MEMORY_MAX);
    }
    places->memories[places->memory_count++] = memory;
    places->on_device |= shm_mapping_is_on_device(memory);
    return shm_mapping_is_whole(memory) ? GEMMD_OK : cut_short(fault);
}

enum gemmd_error client_memory_find(const struct shm_mapping *memory, const char *what,
                                    uint64_t offset, uint64_t bytes, uint64_t alignment,
                                    unsigned char **at, struct fault *fault)
{
    *at = shm_mapping_at(memory, offset, bytes);
    if (*at == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: %" PRIu64 " bytes from offset %" PRIu64
                         " on are not in the shared memory, which has %" PRIu64 " bytes",
                         what, bytes, offset, shm_mapping_bytes(memory));
    if ((uintptr_t)*at % alignment != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: its offset %" PRIu64 " is not a multiple of the %" PRIu64
                         " bytes of an element",
                         what, offset, alignment);
    return GEMMD_OK;
}

void client_memory_point(const struct client_memory *places, struct tensor *operands,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (places->operands[i] != NULL)
            operands[i].data = places->operands[i];
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    const uintptr_t a_start = (uintptr_t)a, b_start = (uintptr_t)b;
    return a_start < b_start + b_bytes && b_start < a_start + a_bytes;
}

static enum gemmd_error check_result(const struct shared_result *result, uint64_t bytes,
                                     const struct tensor *operands, uint32_t count,
                                     struct fault *fault)
{
    if (!result->there)
        return GEMMD_OK;
    if (bytes > result->room_bytes)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the result takes %" PRIu64 " bytes; its shared memory has %" PRIu64,
                         bytes, result->room_bytes);
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].rank > 0 && overlap(result->at, bytes, operands[i].data, operands[i].bytes))
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the result would overwrite an operand in the shared memory");
    return GEMMD_OK;
}

enum gemmd_error client_memory_check_results(const struct client_memory *places,
                                             const struct tensor *operands, uint32_t count,
                                             uint64_t result_bytes, uint64_t lse_bytes,
                                             struct fault *fault)
{
    const struct shared_result *result = &places->result, *lse = &places->lse;
    enum gemmd_error code = check_result(result, result_bytes, operands, count, fault);
    if (code == GEMMD_OK)
        code = check_result(lse, lse_bytes, operands, count, fault);
    if (code == GEMMD_OK && result->there && lse->there &&
        overlap(result->at, result_bytes, lse->at, lse_bytes))
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the results would overwrite each other in the shared memory");
    return code;
}

uint64_t client_memory_bytes(const struct client_memory *places, const struct tensor *operands,
                             uint32_t count)
{
    uint64_t bytes = 0; /* of memory that is mapped, so that they have a sum */
    for (uint32_t i = 0; i < count; i++)
        if (places->operands[i] != NULL)
            bytes += operands[i].bytes;
    return bytes;
}

void client_memory_end(struct client_memory *places, struct work *work)
{
    for (uint32_t i = 0; i < places->memory_count; i++) {
        /* A result that fails verification may do so for that. */
        if ((work->status == GEMMD_OK || work->status == GEMMD_ERR_INTERNAL) &&
            !shm_mapping_is_whole(places->memories[i]))
            work->status = cut_short(&work->fault);
        shm_mapping_release(places->memories[i]);
    }
    places->memory_count = 0;
}
