#include "server/tensors/tensor_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

void tensor_store_set_tenant_bytes(struct tensor_store *store, uint64_t tenant_bytes)
{
    pthread_mutex_lock(&store->lock);
    store->tenant_bytes = tenant_bytes > 0 ? tenant_bytes : UINT64_MAX;
    pthread_mutex_unlock(&store->lock);
}

void tensor_store_destroy(struct tensor_store *store)
{
    if (store == NULL)
        return;
    for (uint32_t kind = 0; kind < RESIDENT_KINDS; kind++)
        while (store->named[kind].root != NULL) {
            struct resident *resident = NAMED(store->named[kind].root);
            assert(resident->users == 0);
            tensor_drop_copies(store, resident);
            name_tree_remove(&store->named[kind], &resident->by_name);
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
    tensor_take_name(store, resident);
    tensor_give_name(store, copy);
    tensor_end_use(store, copy);
    return true;
}

/* Gives up the residents of a kind on a device that is lost. */
static void lose_residents(struct tensor_store *store, enum resident_kind kind, uint32_t device)
{
    struct name_node *nodes[TENSOR_STORE_PAGE_MAX];
    char after[GEMM_TENSOR_NAME_MAX + 1] = "";
    uint32_t count;
    while ((count = name_tree_after(&store->named[kind], after, nodes, TENSOR_STORE_PAGE_MAX)) >
           0) {
        memcpy(after, NAMED(nodes[count - 1])->name, sizeof after);
        for (uint32_t i = 0; i < count; i++) {
            struct resident *resident = NAMED(nodes[i]);
            if (resident->copies[device] != NULL)
                tensor_drop_copy(store, resident->copies[device]);
            if (resident->device == device && !replace_by_copy(store, resident))
                tensor_take_name(store, resident);
        }
    }
}

void tensor_store_lose_device(struct tensor_store *store, uint32_t device)
{
    pthread_mutex_lock(&store->lock);
    store->memories[device].lost = true;
    for (uint32_t kind = 0; kind < RESIDENT_KINDS; kind++)
        lose_residents(store, kind, device);
    pthread_mutex_unlock(&store->lock);
}

/* --- the interface --- */

static enum gemmd_error require_locked(const struct tensor_store *store, const char *name,
                                       const char *tenant, const struct tensor_condition *condition,
                                       struct resident **holder, struct fault *fault)
{
    *holder = tensor_find_named(store, RESIDENT_TENSOR, name);
    if (*holder != NULL && !tensor_is_of(*holder, tenant))
        return tensor_fail_of_owner(RESIDENT_TENSOR, fault);
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
    if (code == GEMMD_OK && store->memories[resident->device].lost)
        code = fault_set(fault, GEMMD_ERR_DEVICE_LOST, NULL, "the tensor's device is lost");
    *replaced = holder != NULL;
    if (code == GEMMD_OK) {
        if (holder != NULL)
            tensor_take_name(store, holder);
        tensor_give_name(store, resident);
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
    enum gemmd_error code = tensor_find_own(store, RESIDENT_TENSOR, name, tenant, &found, fault);
    if (code == GEMMD_OK) {
        *resident = found;
        tensor_begin_use(found);
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

void tensor_store_release(struct tensor_store *store, struct resident *resident)
{
    if (resident == NULL)
        return;
    pthread_mutex_lock(&store->lock);
    tensor_end_use(store, resident);
    pthread_mutex_unlock(&store->lock);
}

enum gemmd_error tensor_store_remove(struct tensor_store *store, const char *name,
                                     const char *tenant, const struct tensor_condition *condition,
                                     struct fault *fault)
{
    struct resident *resident;
    pthread_mutex_lock(&store->lock);
    enum gemmd_error code = tensor_find_own(store, RESIDENT_TENSOR, name, tenant, &resident, fault);
    if (code == GEMMD_OK)
        code = tensor_condition_require(condition, true, resident_etag(resident), fault);
    if (code == GEMMD_OK)
        tensor_take_name(store, resident);
    pthread_mutex_unlock(&store->lock);
    return code;
}

uint32_t tensor_store_page(struct tensor_store *store, const char *tenant, const char *after,
                           struct resident *page[], uint32_t capacity, bool *more)
{
    return tensor_page_of_kind(store, RESIDENT_TENSOR, tenant, after, page, capacity, more);
}

uint32_t tensor_page_of_kind(struct tensor_store *store, enum resident_kind kind,
                             const char *tenant, const char *after, struct resident *page[],
                             uint32_t capacity, bool *more)
{
    struct name_node *nodes[TENSOR_STORE_PAGE_MAX + 1] = {NULL};
    uint32_t count = 0;
    assert(capacity <= TENSOR_STORE_PAGE_MAX);
    pthread_mutex_lock(&store->lock);
    const struct owner *owner = tensor_find_owner(store, tenant);
    if (owner != NULL)
        count = name_tree_after(&owner->named[kind], after, nodes, capacity + 1);
    *more = count > capacity;
    count -= *more;
    for (uint32_t i = 0; i < count; i++) {
        page[i] = OWNED(nodes[i]);
        tensor_begin_use(page[i]);
    }
    pthread_mutex_unlock(&store->lock);
    return count;
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

void tensor_store_set_factor(struct resident *resident, float factor)
{
    resident->packed->factor = factor;
}

void tensor_store_count_use(struct tensor_store *store, bool found)
{
    atomic_fetch_add_explicit(found ? &store->hits : &store->misses, 1, memory_order_relaxed);
}

uint64_t tensor_store_used_by(struct tensor_store *store, const char *tenant)
{
    pthread_mutex_lock(&store->lock);
    const struct owner *owner = tensor_find_owner(store, tenant);
    const uint64_t bytes = owner != NULL ? owner->used_bytes : 0;
    pthread_mutex_unlock(&store->lock);
    return bytes;
}

struct tensor_store_state tensor_store_state(struct tensor_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct tensor_store_state state = {
        .count = store->counts[RESIDENT_TENSOR],
        .sequences = store->counts[RESIDENT_SEQUENCE],
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
