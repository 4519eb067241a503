/*
 * Reserves memory for tensors and for copies of tensors. Idle tensors are evicted if there is no
 * room for the new one.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/size.h"
#include "proto/size_text.h"
#include "server/tensors/tensor_store_parts.h"

static int by_offset(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* The first of a tenant's idle tensors, from `idle` on, that lies on a device; NULL: none does. */
static struct resident *idle_on(struct resident *idle, uint32_t device)
{
    while (idle != NULL && idle->device != device)
        idle = idle->newer;
    return idle;
}

/* Whether there would be a free range of `bytes` on a device if the owner's idle tensors there were
 * evicted. Tensors that stay may lie between the free ranges. Under the lock. */
static bool can_make_room(const struct tensor_store *store, const struct owner *owner,
                          uint32_t device, uint64_t bytes)
{
    const struct memory *memory = &store->memories[device];
    uint64_t obtainable, count = 0;
    if (!size_add(tensor_free_bytes(memory), owner->idle_bytes[device], &obtainable) ||
        obtainable < bytes)
        return false;
    struct resident *oldest = idle_on(owner->oldest, device);
    if (oldest == NULL || oldest->memory_bytes >= bytes)
        return oldest != NULL;
    for (struct resident *idle = oldest; idle != NULL; idle = idle_on(idle->newer, device))
        count++;
    uint64_t *offsets = malloc(count * sizeof *offsets);
    if (offsets == NULL)
        return false;
    count = 0;
    for (struct resident *idle = oldest; idle != NULL; idle = idle_on(idle->newer, device))
        offsets[count++] = idle->offset;
    qsort(offsets, count, sizeof *offsets, by_offset);
    const uint64_t largest = arena_largest_without(memory->arena, offsets, count);
    free(offsets);
    return largest >= bytes;
}

/* Allocates memory on a device. Evicts copies, then idle tensors of the owner if that makes enough
 * room. Under the lock. */
static bool alloc_on(struct tensor_store *store, struct owner *owner, uint32_t device,
                     uint64_t bytes, uint64_t *offset)
{
    struct arena *arena = store->memories[device].arena;
    if (arena == NULL || store->memories[device].lost)
        return false;
    do {
        if (arena_alloc(arena, bytes, offset))
            return true;
    } while (tensor_evict_copy(store, device));
    if (!can_make_room(store, owner, device, bytes))
        return false;
    for (struct resident *idle; (idle = idle_on(owner->oldest, device)) != NULL;) {
        tensor_evict(store, idle);
        if (arena_alloc(arena, bytes, offset))
            return true;
    }
    return false;
}

/* Allocates the memory of a tensor on any device: without evictions if a device has room, with
 * evictions if none has. The device with the most free memory is tried first. Under the lock. */
static bool alloc_anywhere(struct tensor_store *store, struct resident *resident)
{
    const uint64_t bytes = resident->memory_bytes;
    const uint32_t first = tensor_emptiest_device(store);
    for (uint32_t i = 0; i < store->devices; i++) {
        resident->device = (first + i) % store->devices;
        const struct memory *memory = &store->memories[resident->device];
        if (tensor_free_bytes(memory) >= bytes &&
            arena_alloc(memory->arena, bytes, &resident->offset))
            return true;
    }
    for (uint32_t i = 0; i < store->devices; i++) {
        resident->device = (first + i) % store->devices;
        if (alloc_on(store, resident->owner, resident->device, bytes, &resident->offset))
            return true;
    }
    return false;
}

/* Allocates the memory of a tensor on the device that the offer names, or on any device. Under the
 * lock. */
static bool alloc_memory(struct tensor_store *store, const struct tensor_offer *offer,
                         struct resident *resident)
{
    if (offer->device == TENSOR_ANY_DEVICE && store->devices > 1)
        return alloc_anywhere(store, resident);
    resident->device = offer->device == TENSOR_ANY_DEVICE ? 0 : (uint32_t)offer->device;
    return alloc_on(store, resident->owner, resident->device, resident->memory_bytes,
                    &resident->offset);
}

/* Bytes that are left of the owner's own limit. Under the lock. */
static uint64_t left_bytes(const struct tensor_store *store, const struct owner *owner)
{
    return store->tenant_bytes > owner->used_bytes ? store->tenant_bytes - owner->used_bytes : 0;
}

/* By how much the owner would exceed its own limit with `bytes` more. Under the lock. */
static uint64_t excess_bytes(const struct tensor_store *store, const struct owner *owner,
                             uint64_t bytes)
{
    uint64_t used;
    if (!size_add(owner->used_bytes, bytes, &used))
        return UINT64_MAX;
    return used > store->tenant_bytes ? used - store->tenant_bytes : 0;
}

/* Evicts the owner's idle tensors until the owner is within its own limit. Called after the new
 * tensor has got its memory, and only if evicting the idle tensors is enough. Under the lock. */
static void evict_to_own_limit(struct tensor_store *store, struct owner *owner)
{
    while (owner->used_bytes > store->tenant_bytes && owner->oldest != NULL)
        tensor_evict(store, owner->oldest);
}

/* The free bytes of the device that a tensor was asked for, or of the one that has the most. Under
 * the lock. */
static uint64_t most_free_bytes(const struct tensor_store *store, int32_t device)
{
    const uint32_t at =
        device != TENSOR_ANY_DEVICE ? (uint32_t)device : tensor_emptiest_device(store);
    return tensor_free_bytes(&store->memories[at]);
}

static uint64_t all_idle_bytes(const struct tensor_store *store, const struct owner *owner)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < store->devices; i++)
        bytes += owner->idle_bytes[i];
    return bytes;
}

/* Whether the owner's limit allows `bytes` more, at most after all its idle tensors are evicted. */
static bool may_own(const struct tensor_store *store, const struct owner *owner, uint64_t bytes)
{
    return excess_bytes(store, owner, bytes) <= all_idle_bytes(store, owner);
}

static enum gemmd_error refuse_owner(const struct tensor_store *store, const struct owner *owner,
                                     const char *what, uint64_t bytes, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                     "no room for the %s: %s needed, %s free of this tenant's %s "
                     "(--tenant-tensor-bytes)",
                     what, size_text(bytes).text, size_text(left_bytes(store, owner)).text,
                     size_text(store->tenant_bytes).text);
}

static enum gemmd_error refuse_room(const char *what, uint64_t bytes, uint64_t free_bytes,
                                    struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                     "no room for the %s: %s needed, %s free (--tensor-bytes)", what,
                     size_text(bytes).text, size_text(free_bytes).text);
}

enum gemmd_error tensor_take_ranges(struct tensor_store *store, struct owner *owner,
                                    uint32_t device, uint64_t bytes, uint64_t count,
                                    const char *what, uint64_t offsets[], struct fault *fault)
{
    struct memory *memory = &store->memories[device];
    uint64_t total, taken = 0;
    if (!size_mul(bytes, count, &total))
        total = UINT64_MAX;
    if (!may_own(store, owner, total))
        return refuse_owner(store, owner, what, total, fault);
    /* Nothing of the owner is evicted if that would not be enough. */
    while (tensor_free_bytes(memory) < total && tensor_evict_copy(store, device))
        continue;
    const uint64_t free_bytes = tensor_free_bytes(memory);
    if (total > free_bytes && total - free_bytes > owner->idle_bytes[device])
        return refuse_room(what, total, free_bytes, fault);
    while (taken < count && alloc_on(store, owner, device, bytes, &offsets[taken]))
        taken++;
    if (taken < count) {
        while (taken > 0)
            arena_free(memory->arena, offsets[--taken]);
        return refuse_room(what, total, tensor_free_bytes(memory), fault);
    }
    owner->used_bytes += total;
    evict_to_own_limit(store, owner);
    return GEMMD_OK;
}

static enum gemmd_error reserve_locked(struct tensor_store *store, const struct tensor_offer *offer,
                                       struct resident *resident, struct fault *fault)
{
    const struct resident *holder = tensor_find_named(store, RESIDENT_TENSOR, offer->name);
    if (holder != NULL && !tensor_is_of(holder, offer->tenant))
        return tensor_fail_of_owner(RESIDENT_TENSOR, fault);
    resident->owner = tensor_owner_of(store, offer->tenant);
    if (resident->owner == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the record of a tensor");
    if (!may_own(store, resident->owner, resident->memory_bytes))
        return refuse_owner(store, resident->owner, "tensor", resident->memory_bytes, fault);
    if (!alloc_memory(store, offer, resident))
        return refuse_room("tensor", resident->memory_bytes, most_free_bytes(store, offer->device),
                           fault);
    resident->memory = store->memories[resident->device].start + resident->offset;
    atomic_init(&resident->places, 1u << resident->device);
    resident->owner->used_bytes += resident->memory_bytes;
    evict_to_own_limit(store, resident->owner);
    return GEMMD_OK;
}

/* Keeps the description of a file of packed weights, if there is one. False: out of memory. */
static bool keep_packed(struct resident *resident, const struct packed_file *packed)
{
    if (packed == NULL)
        return true;
    resident->packed = malloc(sizeof *packed);
    if (resident->packed == NULL)
        return false;
    *resident->packed = *packed;
    for (uint32_t i = 0; i < packed->count; i++)
        resident->packed->entries[i].tensor.data = NULL;
    return true;
}

/* Creates a tensor without memory. NULL: out of memory. */
static struct resident *resident_create(const struct packed_file *packed)
{
    struct resident *resident = calloc(1, sizeof *resident);
    if (resident != NULL && keep_packed(resident, packed))
        return resident;
    free(resident);
    return NULL;
}

static void resident_destroy(struct resident *resident)
{
    free(resident->packed);
    free(resident);
}

enum gemmd_error tensor_store_reserve(struct tensor_store *store, const struct tensor_offer *offer,
                                      struct resident **out, struct fault *fault)
{
    struct resident *resident = resident_create(offer->packed);
    if (resident == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the record of a tensor");
    memcpy(resident->name, offer->name, strlen(offer->name) + 1);
    resident->evictable = offer->evictable;
    resident->tensor = *offer->tensor;
    resident->tensor.fortran = false;
    resident->tensor.data = NULL;
    if (offer->scale != NULL)
        resident->scale = *offer->scale;
    resident->scale.fortran = false;
    resident->scale.data = NULL;
    resident->users = 1;
    atomic_init(&resident->has_etag, false);
    if (!tensor_lay_out(store, resident, offer->contiguous)) {
        resident_destroy(resident);
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "the tensor's size does not fit in 64 bits");
    }
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = reserve_locked(store, offer, resident, fault);
    pthread_mutex_unlock(&store->lock);
    if (code != GEMMD_OK) {
        resident_destroy(resident);
        return code;
    }
    *out = resident;
    return GEMMD_OK;
}

static struct resident *copy_create(const struct resident *resident, uint32_t device)
{
    struct resident *copy = resident_create(resident->packed);
    if (copy == NULL)
        return NULL;
    memcpy(copy->name, resident->name, sizeof copy->name);
    copy->owner = resident->owner;
    copy->evictable = resident->evictable;
    copy->is_copy = true;
    copy->tensor = resident->tensor;
    copy->scale = resident->scale;
    copy->scale_offset = resident->scale_offset;
    copy->rows = resident->rows;
    copy->leading = resident->leading;
    copy->device = device;
    copy->memory_bytes = resident->memory_bytes;
    copy->users = 1;
    atomic_init(&copy->places, 1u << device);
    atomic_init(&copy->has_etag, false);
    return copy;
}

enum gemmd_error tensor_store_reserve_copy(struct tensor_store *store, struct resident *resident,
                                           uint32_t device, struct resident **out,
                                           struct fault *fault)
{
    struct resident *copy = copy_create(resident, device);
    if (copy == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the record of a tensor");
    pthread_mutex_lock(&store->lock);
    const bool has_room = alloc_on(store, copy->owner, device, copy->memory_bytes, &copy->offset);
    const uint64_t free_there = tensor_free_bytes(&store->memories[device]);
    pthread_mutex_unlock(&store->lock);
    if (!has_room) {
        resident_destroy(copy);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no room for a copy of the tensor '%s' on the device that computes: "
                         "%s needed, %s free (--tensor-bytes)",
                         resident->name, size_text(resident->memory_bytes).text,
                         size_text(free_there).text);
    }
    copy->memory = store->memories[device].start + copy->offset;
    atomic_fetch_or(&resident->arriving, 1u << device);
    *out = copy;
    return GEMMD_OK;
}
