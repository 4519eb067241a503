#include "server/compute/shared_places.h"

#include <inttypes.h>

static enum gemmd_error cut_short(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                     "the shared memory has been made shorter than it was when it was shared");
}

enum gemmd_error shared_places_hold(struct shared_places *places, struct shared_memory *memory,
                                    struct fault *fault)
{
    if (places->memory_count == SHARED_PLACES_MAX) {
        shared_release(memory);
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL, "the request uses more than %d memories",
                         SHARED_PLACES_MAX);
    }
    places->memories[places->memory_count++] = memory;
    places->on_device |= shared_is_on_device(memory);
    return shared_is_whole(memory) ? GEMMD_OK : cut_short(fault);
}

enum gemmd_error shared_places_find(const struct shared_memory *memory, const char *what,
                                    uint64_t offset, uint64_t bytes, uint64_t alignment,
                                    unsigned char **at, struct fault *fault)
{
    *at = shared_at(memory, offset, bytes);
    if (*at == NULL)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: %" PRIu64 " bytes from offset %" PRIu64
                         " on are not in the shared memory, which has %" PRIu64 " bytes",
                         what, bytes, offset, shared_bytes(memory));
    if ((uintptr_t)*at % alignment != 0)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "%s: its offset %" PRIu64 " is not a multiple of the %" PRIu64
                         " bytes of an element",
                         what, offset, alignment);
    return GEMMD_OK;
}

void shared_places_point(const struct shared_places *places, struct tensor *const operands[],
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (places->operands[i] != NULL)
            operands[i]->data = places->operands[i];
}

enum gemmd_error shared_places_check_result(const struct shared_places *places,
                                            struct tensor *const operands[], uint32_t count,
                                            uint64_t bytes, struct fault *fault)
{
    const uintptr_t start = (uintptr_t)places->result;
    if (!places->has_result)
        return GEMMD_OK;
    if (bytes > places->result_room)
        return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "the result takes %" PRIu64 " bytes; its shared memory has %" PRIu64,
                         bytes, places->result_room);
    for (uint32_t i = 0; i < count; i++) {
        const uintptr_t other = (uintptr_t)operands[i]->data;
        if (operands[i]->rank > 0 && start < other + operands[i]->bytes && other < start + bytes)
            return fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                             "the result would overwrite an operand in the shared memory");
    }
    return GEMMD_OK;
}

void shared_places_end(struct shared_places *places, struct work *work)
{
    for (uint32_t i = 0; i < places->memory_count; i++) {
        /* A result that fails verification may do so for that. */
        if ((work->status == GEMMD_OK || work->status == GEMMD_ERR_INTERNAL) &&
            !shared_is_whole(places->memories[i]))
            work->status = cut_short(&work->fault);
        shared_release(places->memories[i]);
    }
    places->memory_count = 0;
}
