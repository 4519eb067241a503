#include "server/tensors/resident.h"

#include "server/tensors/tensor_store_parts.h"

const char *resident_name(const struct resident *resident)
{
    return resident->name;
}

bool resident_evictable(const struct resident *resident)
{
    return resident->evictable;
}

const struct tensor *resident_tensor(const struct resident *resident)
{
    return &resident->tensor;
}

uint32_t resident_device(const struct resident *resident)
{
    return resident->device;
}

const struct tensor *resident_scale(const struct resident *resident)
{
    return &resident->scale;
}

const struct packed_file *resident_packed(const struct resident *resident)
{
    return resident->packed;
}

void *resident_scale_memory(const struct resident *resident)
{
    return (unsigned char *)resident->memory + resident->scale_offset;
}

void *resident_memory(const struct resident *resident)
{
    return resident->memory;
}

uint64_t resident_rows(const struct resident *resident)
{
    return resident->rows;
}

uint64_t resident_leading(const struct resident *resident)
{
    return resident->leading;
}

uint64_t resident_memory_bytes(const struct resident *resident)
{
    return resident->memory_bytes;
}

struct model_stats *resident_stats(struct resident *resident)
{
    return &resident->stats;
}

const char *resident_etag(const struct resident *resident)
{
    return atomic_load_explicit(&resident->has_etag, memory_order_acquire) ? resident->etag : NULL;
}

bool resident_is_on(const struct resident *resident, uint32_t device)
{
    return (atomic_load_explicit(&resident->places, memory_order_relaxed) & 1u << device) != 0;
}

bool resident_is_arriving(const struct resident *resident, uint32_t device)
{
    return (atomic_load_explicit(&resident->arriving, memory_order_relaxed) & 1u << device) != 0;
}
