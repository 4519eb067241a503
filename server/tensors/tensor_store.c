#include "server/tensors/tensor_store.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/dtype.h"
#include "proto/size.h"
#include "server/device/memory/arena.h"
#include "server/observe/model_stats.h"
#include "server/tensors/name_tree.h"

struct owner;

struct resident {
    char name[GEMM_TENSOR_NAME_MAX + 1];
    struct owner *owner;
    bool evictable;
    struct tensor tensor;
    void *memory;
    uint64_t rows, leading;
    uint64_t offset, memory_bytes; /* the tensor's range of the store's memory */
    struct model_stats stats;

    /* Protected by the store's lock. */
    bool named;
    struct name_node by_name, of_owner; /* in the store's and the owner's tree, while named */
    uint32_t users;
    struct resident *older, *newer; /* in the owner's list of idle tensors */

    char etag[TENSOR_ETAG_SIZE]; /* written once, before has_etag is set */
    atomic_bool has_etag;
};

#define NAMED(node) ((struct resident *)(void *)((char *)(node)-offsetof(struct resident, by_name)))
#define OWNED(node)                                                                                \
    ((struct resident *)(void *)((char *)(node)-offsetof(struct resident, of_owner)))

/* A tenant that has or had tensors. Owners are kept until the store is destroyed, since there are
 * only as many as tenants. */
struct owner {
    struct owner *next;
    struct resident *oldest, *newest; /* idle tensors: evictable and not in use, by last use */
    uint64_t idle_bytes;              /* of the idle tensors */
    uint64_t used_bytes;              /* of all the owner's tensors, with a name or without */
    struct name_tree named;
    char name[];
};

struct tensor_store {
    unsigned char *memory;
    struct arena *arena; /* NULL: the store has no memory */
    struct gemm_device device;
    uint64_t tenant_bytes; /* UINT64_MAX: tenants have no limit of their own */
    atomic_uint_fast64_t hits, misses;

    pthread_mutex_t lock;
    struct owner *owners;
    struct name_tree named; /* the tensors of all owners */
    uint64_t count;
    uint64_t evictions;
};

struct tensor_store *tensor_store_create(struct device_span memory,
                                         const struct gemm_device *device, uint64_t tenant_bytes)
{
    struct tensor_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    if (pthread_mutex_init(&store->lock, NULL) != 0)
        goto no_lock;
    store->device = *device;
    store->tenant_bytes = tenant_bytes > 0 ? tenant_bytes : UINT64_MAX;
    if (memory.bytes >= ARENA_ALIGNMENT) {
        store->memory = memory.start;
        store->arena = arena_create(memory.bytes);
        if (store->arena == NULL)
            goto no_arena;
    }
    return store;

no_arena:
    pthread_mutex_destroy(&store->lock);
no_lock:
    free(store);
    return NULL;
}

static void resident_free(struct tensor_store *store, struct resident *resident)
{
    resident->owner->used_bytes -= resident->memory_bytes;
    arena_free(store->arena, resident->offset);
    free(resident);
}

void tensor_store_destroy(struct tensor_store *store)
{
    if (store == NULL)
        return;
    while (store->named.root != NULL) {
        struct resident *resident = NAMED(store->named.root);
        assert(resident->users == 0);
        name_tree_remove(&store->named, &resident->by_name);
        resident_free(store, resident);
    }
    while (store->owners != NULL) {
        struct owner *next = store->owners->next;
        free(store->owners);
        store->owners = next;
    }
    arena_destroy(store->arena);
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
    owner->idle_bytes += resident->memory_bytes;
}

static void leave_idle(struct resident *resident)
{
    struct owner *owner = resident->owner;
    *(resident->older != NULL ? &resident->older->newer : &owner->oldest) = resident->newer;
    *(resident->newer != NULL ? &resident->newer->older : &owner->newest) = resident->older;
    owner->idle_bytes -= resident->memory_bytes;
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
    resident->users--;
    if (is_idle(resident))
        enter_idle(resident);
    else if (resident->users == 0 && !resident->named)
        resident_free(store, resident);
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
    if (resident->users == 0)
        resident_free(store, resident);
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

static uint64_t free_bytes(const struct tensor_store *store)
{
    return store->arena == NULL
               ? 0
               : arena_capacity_bytes(store->arena) - arena_used_bytes(store->arena);
}

static int by_offset(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Whether there would be a free range of `bytes` if the owner's idle tensors were evicted. Tensors
 * that stay may lie between the free ranges. Under the lock. */
static bool can_make_room(const struct tensor_store *store, const struct owner *owner,
                          uint64_t bytes)
{
    uint64_t obtainable, count = 0;
    if (!size_add(free_bytes(store), owner->idle_bytes, &obtainable) || obtainable < bytes)
        return false;
    if (owner->oldest == NULL || owner->oldest->memory_bytes >= bytes)
        return owner->oldest != NULL;
    for (const struct resident *idle = owner->oldest; idle != NULL; idle = idle->newer)
        count++;
    uint64_t *offsets = malloc(count * sizeof *offsets);
    if (offsets == NULL)
        return false;
    count = 0;
    for (const struct resident *idle = owner->oldest; idle != NULL; idle = idle->newer)
        offsets[count++] = idle->offset;
    qsort(offsets, count, sizeof *offsets, by_offset);
    const uint64_t largest = arena_largest_without(store->arena, offsets, count);
    free(offsets);
    return largest >= bytes;
}

/* Allocates memory, and evicts tensors only if that makes enough room. Under the lock. */
static bool alloc_memory(struct tensor_store *store, struct owner *owner, uint64_t bytes,
                         uint64_t *offset)
{
    if (store->arena == NULL)
        return false;
    if (arena_alloc(store->arena, bytes, offset))
        return true;
    if (!can_make_room(store, owner, bytes))
        return false;
    while (owner->oldest != NULL) {
        evict_idle(store, owner->oldest);
        if (arena_alloc(store->arena, bytes, offset))
            return true;
    }
    return false;
}

/* Computes the rows, the leading dimension and the memory of a tensor. False: the size overflows.
 */
static bool lay_out(const struct tensor_store *store, struct resident *resident)
{
    const struct tensor *tensor = &resident->tensor;
    const uint64_t width = tensor->dims[tensor->rank - 1];
    uint64_t elements, bytes;
    resident->leading =
        tensor->rank > 1 ? gemm_leading(&store->device, tensor->dtype, width, true) : width;
    return size_product(tensor->dims, tensor->rank - 1, &resident->rows) &&
           size_mul(resident->rows, resident->leading, &elements) &&
           size_mul(elements, dtype_size(tensor->dtype), &bytes) &&
           size_align(bytes > 0 ? bytes : 1, ARENA_ALIGNMENT, &resident->memory_bytes);
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
        resident->memory_bytes - own_bytes > resident->owner->idle_bytes)
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room for the tensor: %" PRIu64 " bytes needed, %" PRIu64
                         " free of this tenant's %" PRIu64 " (tenant-tensor-bytes)",
                         resident->memory_bytes, own_bytes, store->tenant_bytes);
    if (!alloc_memory(store, resident->owner, resident->memory_bytes, &resident->offset))
        return fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room for the tensor: %" PRIu64 " bytes needed, %" PRIu64 " free",
                         resident->memory_bytes, free_bytes(store));
    resident->memory = store->memory + resident->offset;
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
    resident->users = 1;
    atomic_init(&resident->has_etag, false);
    if (!lay_out(store, resident)) {
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
        .used_bytes = store->arena == NULL ? 0 : arena_used_bytes(store->arena),
        .capacity_bytes = store->arena == NULL ? 0 : arena_capacity_bytes(store->arena),
        .count = store->count,
        .hits = atomic_load_explicit(&store->hits, memory_order_relaxed),
        .misses = atomic_load_explicit(&store->misses, memory_order_relaxed),
        .evictions = store->evictions,
    };
    pthread_mutex_unlock(&store->lock);
    return state;
}
