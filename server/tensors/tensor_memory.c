/* The memories of the store: where tensors lie on the devices, and how much is free. */
#include <stdlib.h>

#include "proto/dtype.h"
#include "proto/size.h"
#include "server/tensors/tensor_store_parts.h"

void tensor_close_memories(struct tensor_store *store)
{
    for (uint32_t i = 0; i < store->devices; i++)
        arena_destroy(store->memories[i].arena);
}

void tensor_free(struct tensor_store *store, struct resident *resident)
{
    if (resident->kind == RESIDENT_SEQUENCE) {
        sequence_free(store, resident);
        return;
    }
    if (!resident->is_copy)
        resident->owner->used_bytes -= resident->memory_bytes;
    arena_free(store->memories[resident->device].arena, resident->offset);
    free(resident->packed);
    free(resident);
}

uint64_t tensor_free_bytes(const struct memory *memory)
{
    return memory->arena == NULL || memory->lost
               ? 0
               : arena_capacity_bytes(memory->arena) - arena_used_bytes(memory->arena);
}

/* The device with the most free memory. */
uint32_t tensor_emptiest_device(const struct tensor_store *store)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < store->devices; i++)
        if (tensor_free_bytes(&store->memories[i]) > tensor_free_bytes(&store->memories[best]))
            best = i;
    return best;
}

/* Computes the rows, the leading dimension and the memory of a tensor, whose scales lie behind it.
 * False: the size overflows. */
bool tensor_lay_out(const struct tensor_store *store, struct resident *resident, bool contiguous)
{
    const struct tensor *tensor = &resident->tensor;
    const uint64_t width = tensor->dims[tensor->rank - 1];
    uint64_t elements, bytes, scale_bytes;
    resident->leading = tensor->rank > 1 && !contiguous
                            ? gemm_leading(&store->device, tensor->dtype, width, true)
                            : width;
    return size_product(tensor->dims, tensor->rank - 1, &resident->rows) &&
           size_mul(resident->rows, resident->leading, &elements) &&
           size_mul(elements, dtype_size(tensor->dtype), &bytes) &&
           size_align(bytes > 0 ? bytes : 1, ARENA_ALIGNMENT, &resident->scale_offset) &&
           size_align(resident->scale.rank > 0 ? resident->scale.bytes : 0, ARENA_ALIGNMENT,
                      &scale_bytes) &&
           size_add(resident->scale_offset, scale_bytes, &resident->memory_bytes);
}
