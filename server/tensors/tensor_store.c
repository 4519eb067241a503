#include "server/tensors/tensor_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/size.h"
#include "proto/size_text.h"
#include "server/tensors/tensor_store_parts.h"

struct tensor_store *tensor_store_create(const struct device_span memories[], uint32_t count,
                                         const struct gemm_device *device, uint64_t tenant_bytes)
{
    struct tensor_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    if (pthread_mutex_init(&store->lock, NULL) != 0)
        goto no_lock;
    store->device = *device;
    store->tenant_bytes = tenant_bytes > 0 ? tenant_bytes : UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct memory *memory = &store->memories[store->devices++];
        if (memories[i].bytes < ARENA_ALIGNMENT)
            continue;
        memory->start = memories[i].start;
        memory->arena = arena_create(memories[i].bytes);
        if (memory->arena == NULL)
            goto no_arena;
    }
    return store;

no_arena:
    tensor_close_memories(store);
    pthread_mutex_destroy(&store->lock);
no_lock:
    free(store);
    return NULL;
}

void tensor_store_destroy(struct tensor_store *store)
{
    if (store == NULL)
        return;
    while (store->named.root != NULL) {
        struct resident *resident = NAMED(store->named.root);
        assert(resident->users == 0);
        tensor_drop_copies(store, resident);
        name_tree_remove(&store->named, &resident->by_name);
        tensor_free(store, resident);
    }
    while (store->owners != NULL) {
        struct owner *next = store->owners->next;
        free(store->owners);
        store->owners = next;
    }
    tensor_close_memories(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

/* --- names; under the lock --- */

/* The tensor that has a name; NULL: no tensor has. */
static struct resident *find_named(const struct tensor_store *store, const char *name)
{
    struct name_node *node = name_tree_find(&store->named, name);
    return node != NULL ? NAMED(node) : NULL;
}

static enum gemmd_error fail_of_owner(struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_FORBIDDEN, NULL,
                     "the tensor of that name belongs to another tenant");
}

static bool is_of(const struct resident *resident, const char *tenant)
{
    return strcmp(resident->owner->name, tenant) == 0;
}

static enum gemmd_error find_own(const struct tensor_store *store, const char *name,
                                 const char *tenant, struct resident **resident,
                                 struct fault *fault)
{
    *resident = find_named(store, name);
    if (*resident == NULL)
        return fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL, "there is no tensor '%s'", name);
    return is_of(*resident, tenant) ? GEMMD_OK : fail_of_owner(fault);
}

static struct owner *find_owner(const struct tensor_store *store, const char *tenant)
{
    struct owner *owner = store->owners;
    while (owner != NULL && strcmp(owner->name, tenant) != 0)
        owner = owner->next;
    return owner;
}

static struct owner *owner_of(struct tensor_store *store, const char *tenant)
{
    struct owner *owner = find_owner(store, tenant);
    if (owner != NULL)
        return owner;
    const size_t length = strlen(tenant);
    owner = calloc(1, sizeof *owner + length + 1);
    if (owner == NULL)
        return NULL;
    memcpy(owner->name, tenant, length + 1);
    owner->next = store->owners;
    store->owners = owner;
    return owner;
}

/* --- idle tensors; under the lock --- */

static bool is_idle(const struct resident *resident)
{
    return resident->named && resident->evictable && resident->users == 0;
}

static void enter_idle(struct resident *resident)
{
    struct owner *owner = resident->owner;
    resident->newer = NULL;
    resident->older = owner->newest;
    *(owner->newest != NULL ? &owner->newest->newer : &owner->oldest) = resident;
    owner->newest = resident;
    owner->idle_bytes[resident->device] += resident->memory_bytes;
}

static void leave_idle(struct resident *resident)
{
    struct owner *owner = resident->owner;
    *(resident->older != NULL ? &resident->older->newer : &owner->oldest) = resident->newer;
    *(resident->newer != NULL ? &resident->newer->older : &owner->newest) = resident->older;
    owner->idle_bytes[resident->device] -= resident->memory_bytes;
}

static void begin_use(struct resident *resident)
{
    if (is_idle(resident))
        leave_idle(resident);
    resident->users++;
}

static void end_use(struct tensor_store *store, struct resident *resident)
{
    assert(resident->users > 0);
    if (resident->is_copy) {
        tensor_copy_end_use(store, resident);
        return;
    }
    resident->users--;
    if (is_idle(resident))
        enter_idle(resident);
    else if (resident->users == 0 && !resident->named)
        tensor_free(store, resident);
}

static void give_name(struct tensor_store *store, struct resident *resident)
{
    resident->named = true;
    resident->by_name.name = resident->of_owner.name = resident->name;
    name_tree_insert(&store->named, &resident->by_name);
    name_tree_insert(&resident->owner->named, &resident->of_owner);
    store->count++;
}

static void take_name(struct tensor_store *store, struct resident *resident)
{
    if (is_idle(resident))
        leave_idle(resident);
    resident->named = false;
    name_tree_remove(&store->named, &resident->by_name);
    name_tree_remove(&resident->owner->named, &resident->of_owner);
    store->count--;
    tensor_drop_copies(store, resident);
    if (resident->users == 0)
        tensor_free(store, resident);
}

static void evict_idle(struct tensor_store *store, const struct resident *resident)
{
    struct resident *named = find_named(store, resident->name);
    if (named == NULL) /* does not happen: an idle tensor has a name */
        return;
    take_name(store, named);
    store->evictions++;
}

/* --- memory --- */

static int by_offset(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* The next of a tenant's idle tensors that lies on a device, from `idle` on; NULL: none does. */
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
        evict_idle(store, idle);
        if (arena_alloc(arena, bytes, offset))
            return true;
    }
    return false;
}

/* Allocates the memory of a tensor on the device that is asked for; else where that needs no
 * eviction, if it can be had so, and on any device if not. Under the lock. */
static bool alloc_memory(struct tensor_store *store, const struct tensor_offer *offer,
                         struct resident *resident)
{
    struct owner *owner = resident->owner;
    const uint64_t bytes = resident->memory_bytes;
    resident->device = offer->device != TENSOR_ANY_DEVICE ? (uint32_t)offer->device
                                                          : tensor_emptiest_device(store);
    if (offer->device != TENSOR_ANY_DEVICE || store->devices == 1)
        return alloc_on(store, owner, resident->device, bytes, &resident->offset);
    const uint32_t first = resident->device;
    for (uint32_t i = 0; i < 2 * store->devices; i++) {
        const bool evicts = i >= store->devices;
        const uint32_t device = resident->device = (first + i) % store->devices;
        if (!evicts && tensor_free_bytes(&store->memories[device]) < bytes)
            continue;
        if (evicts ? alloc_on(store, owner, device, bytes, &resident->offset)
                   : arena_alloc(store->memories[device].arena, bytes, &resident->offset))
            return true;
    }
    return false;
}

/* Bytes that are left of the owner's own limit. Under the lock. */
static uint64_t left_bytes(const struct tensor_store *store, const struct owner *owner)
{
    return store->tenant_bytes > owner->used_bytes ? store->tenant_bytes - owner->used_bytes : 0;
}

/* Evicts the owner's idle tensors until the owner is within its own limit. Called when the new
 * tensor has its memory, and only if the idle tensors suffice. Under the lock. */
static void evict_to_own_limit(struct tensor_store *store, struct owner *owner)
{
    while (owner->used_bytes > store->tenant_bytes && owner->oldest != NULL)
        evict_idle(store, owner->oldest);
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

static enum gemmd_error reserve_locked(struct tensor_store *store, const struct tensor_offer *offer,
                                       struct resident *resident, struct fault *fault)
{
    const struct resident *holder = find_named(store, offer->name);
    if (holder != NULL && !is_of(holder, offer->tenant))
        return fail_of_owner(fault);
    resident->owner = owner_of(store, offer->tenant);
    if (resident->owner == NULL)
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                         "no memory for the record of a tensor");
    const uint64_t own_bytes = left_bytes(store, resident->owner);
    if (resident->memory_bytes > own_bytes &&
        resident->memory_bytes - own_bytes > all_idle_bytes(store, resident->owner))
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room for the tensor: %s needed, %s free of this tenant's %s "
                         "(--tenant-tensor-bytes)",
                         size_text(resident->memory_bytes).text, size_text(own_bytes).text,
                         size_text(store->tenant_bytes).text);
    if (!alloc_memory(store, offer, resident))
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room for the tensor: %s needed, %s free (--tensor-bytes)",
                         size_text(resident->memory_bytes).text,
                         size_text(most_free_bytes(store, offer->device)).text);
    resident->memory = store->memories[resident->device].start + resident->offset;
    atomic_init(&resident->places, 1u << resident->device);
    resident->owner->used_bytes += resident->memory_bytes;
    evict_to_own_limit(store, resident->owner);
    return GEMMD_OK;
}

enum gemmd_error tensor_store_reserve(struct tensor_store *store, const struct tensor_offer *offer,
                                      struct resident **out, struct fault *fault)
{
    struct resident *resident = calloc(1, sizeof *resident);
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
        free(resident);
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "the tensor's size does not fit in 64 bits");
    }
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = reserve_locked(store, offer, resident, fault);
    pthread_mutex_unlock(&store->lock);
    if (code != GEMMD_OK) {
        free(resident);
        return code;
    }
    *out = resident;
    return GEMMD_OK;
}

static struct resident *copy_create(const struct resident *resident, uint32_t device)
{
    struct resident *copy = calloc(1, sizeof *copy);
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
        free(copy);
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

/* Gives the name of a tensor to its copy on a device that is not lost. False: it has none. */
static bool replace_by_copy(struct tensor_store *store, struct resident *resident)
{
    struct resident *copy = NULL;
    for (uint32_t i = 0; i < store->devices && copy == NULL; i++)
        if (!store->memories[i].lost)
            copy = resident->copies[i];
    if (copy == NULL)
        return false;
    tensor_copy_begin_use(store, copy); /* so that it stays without its original */
    tensor_drop_copy(store, copy);
    copy->is_copy = false;
    copy->owner->used_bytes += copy->memory_bytes;
    memcpy(copy->etag, resident->etag, sizeof copy->etag);
    atomic_store(&copy->has_etag, atomic_load(&resident->has_etag));
    take_name(store, resident);
    give_name(store, copy);
    end_use(store, copy);
    return true;
}

void tensor_store_lose_device(struct tensor_store *store, uint32_t device)
{
    struct name_node *nodes[TENSOR_STORE_PAGE_MAX];
    char after[GEMM_TENSOR_NAME_MAX + 1] = "";
    uint32_t count;
    pthread_mutex_lock(&store->lock);
    store->memories[device].lost = true;
    while ((count = name_tree_after(&store->named, after, nodes, TENSOR_STORE_PAGE_MAX)) > 0) {
        memcpy(after, NAMED(nodes[count - 1])->name, sizeof after);
        for (uint32_t i = 0; i < count; i++) {
            struct resident *resident = NAMED(nodes[i]);
            if (resident->copies[device] != NULL)
                tensor_drop_copy(store, resident->copies[device]);
            if (resident->device == device && !replace_by_copy(store, resident))
                take_name(store, resident);
        }
    }
    pthread_mutex_unlock(&store->lock);
}

/* --- the interface --- */

static enum gemmd_error require_locked(const struct tensor_store *store, const char *name,
                                       const char *tenant, const struct tensor_condition *condition,
                                       struct resident **holder, struct fault *fault)
{
    *holder = find_named(store, name);
    if (*holder != NULL && !is_of(*holder, tenant))
        return fail_of_owner(fault);
    return tensor_condition_require(condition, *holder != NULL,
                                    *holder != NULL ? resident_etag(*holder) : NULL, fault);
}

enum gemmd_error tensor_store_require(struct tensor_store *store, const char *name,
                                      const char *tenant, const struct tensor_condition *condition,
                                      struct fault *fault)
{
    struct resident *holder;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = require_locked(store, name, tenant, condition, &holder, fault);
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum gemmd_error tensor_store_publish(struct tensor_store *store, struct resident *resident,
                                      const struct tensor_condition *condition, bool *replaced,
                                      struct fault *fault)
{
    struct resident *holder;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code =
        require_locked(store, resident->name, resident->owner->name, condition, &holder, fault);
    *replaced = holder != NULL;
    if (code == GEMMD_OK) {
        if (holder != NULL)
            take_name(store, holder);
        give_name(store, resident);
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum gemmd_error tensor_store_acquire(struct tensor_store *store, const char *name,
                                      const char *tenant, struct resident **resident,
                                      struct fault *fault)
{
    struct resident *found;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = find_own(store, name, tenant, &found, fault);
    if (code == GEMMD_OK) {
        *resident = found;
        begin_use(found);
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

void tensor_store_release(struct tensor_store *store, struct resident *resident)
{
    if (resident == NULL)
        return;
    pthread_mutex_lock(&store->lock);
    end_use(store, resident);
    pthread_mutex_unlock(&store->lock);
}

enum gemmd_error tensor_store_remove(struct tensor_store *store, const char *name,
                                     const char *tenant, const struct tensor_condition *condition,
                                     struct fault *fault)
{
    struct resident *resident;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = find_own(store, name, tenant, &resident, fault);
    if (code == GEMMD_OK)
        code = tensor_condition_require(condition, true, resident_etag(resident), fault);
    if (code == GEMMD_OK)
        take_name(store, resident);
    pthread_mutex_unlock(&store->lock);
    return code;
}

uint32_t tensor_store_page(struct tensor_store *store, const char *tenant, const char *after,
                           struct resident *page[], uint32_t capacity, bool *more)
{
    struct name_node *nodes[TENSOR_STORE_PAGE_MAX + 1] = {NULL};
    uint32_t count = 0;
    assert(capacity <= TENSOR_STORE_PAGE_MAX);
    pthread_mutex_lock(&store->lock);
    const struct owner *owner = find_owner(store, tenant);
    if (owner != NULL)
        count = name_tree_after(&owner->named, after, nodes, capacity + 1);
    *more = count > capacity;
    count -= *more;
    for (uint32_t i = 0; i < count; i++) {
        page[i] = OWNED(nodes[i]);
        begin_use(page[i]);
    }
    pthread_mutex_unlock(&store->lock);
    return count;
}

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

void tensor_store_set_etag(struct tensor_store *store, struct resident *resident,
                           const char etag[TENSOR_ETAG_SIZE])
{
    pthread_mutex_lock(&store->lock);
    if (!atomic_load_explicit(&resident->has_etag, memory_order_relaxed)) {
        memcpy(resident->etag, etag, TENSOR_ETAG_SIZE);
        atomic_store_explicit(&resident->has_etag, true, memory_order_release);
    }
    pthread_mutex_unlock(&store->lock);
}

void tensor_store_count_use(struct tensor_store *store, bool found)
{
    atomic_fetch_add_explicit(found ? &store->hits : &store->misses, 1, memory_order_relaxed);
}

uint64_t tensor_store_used_by(struct tensor_store *store, const char *tenant)
{
    pthread_mutex_lock(&store->lock);
    const struct owner *owner = find_owner(store, tenant);
    const uint64_t bytes = owner != NULL ? owner->used_bytes : 0;
    pthread_mutex_unlock(&store->lock);
    return bytes;
}

struct tensor_store_state tensor_store_state(struct tensor_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct tensor_store_state state = {
        .count = store->count,
        .hits = atomic_load_explicit(&store->hits, memory_order_relaxed),
        .misses = atomic_load_explicit(&store->misses, memory_order_relaxed),
        .evictions = store->evictions,
    };
    for (uint32_t i = 0; i < store->devices; i++) {
        if (store->memories[i].arena == NULL)
            continue;
        state.used_bytes += arena_used_bytes(store->memories[i].arena);
        state.capacity_bytes += arena_capacity_bytes(store->memories[i].arena);
    }
    pthread_mutex_unlock(&store->lock);
    return state;
}

struct tensor_store_state tensor_store_state_on(struct tensor_store *store, uint32_t device)
{
    const struct arena *arena = store->memories[device].arena;
    struct tensor_store_state state = {.used_bytes = 0};
    if (arena != NULL) {
        state.used_bytes = arena_used_bytes(arena);
        state.capacity_bytes = arena_capacity_bytes(arena);
    }
    return state;
}
