/*
 * The names of resident tensors, and their uses. A tensor that has a name, may be evicted and is
 * not in use is idle, and is in its owner's list of idle tensors.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/tensors/tensor_store_parts.h"

static const char *const nouns[RESIDENT_KINDS] = {
    [RESIDENT_TENSOR] = "tensor", [RESIDENT_SEQUENCE] = "sequence"};

struct resident *tensor_find_named(const struct tensor_store *store, enum resident_kind kind,
                                   const char *name)
{
    struct name_node *node = name_tree_find(&store->named[kind], name);
    return node != NULL ? NAMED(node) : NULL;
}

enum gemmd_error tensor_fail_of_owner(enum resident_kind kind, struct fault *fault)
{
    return fault_set(fault, GEMMD_ERR_FORBIDDEN, NULL,
                     "the %s of that name belongs to another tenant", nouns[kind]);
}

bool tensor_is_of(const struct resident *resident, const char *tenant)
{
    return strcmp(resident->owner->name, tenant) == 0;
}

enum gemmd_error tensor_find_own(const struct tensor_store *store, enum resident_kind kind,
                                 const char *name, const char *tenant, struct resident **resident,
                                 struct fault *fault)
{
    *resident = tensor_find_named(store, kind, name);
    if (*resident == NULL)
        return fault_set(fault, GEMMD_ERR_NOT_FOUND, NULL, "there is no %s '%s'", nouns[kind],
                         name);
    return tensor_is_of(*resident, tenant) ? GEMMD_OK : tensor_fail_of_owner(kind, fault);
}

struct owner *tensor_find_owner(const struct tensor_store *store, const char *tenant)
{
    struct owner *owner = store->owners;
    while (owner != NULL && strcmp(owner->name, tenant) != 0)
        owner = owner->next;
    return owner;
}

struct owner *tensor_owner_of(struct tensor_store *store, const char *tenant)
{
    struct owner *owner = tensor_find_owner(store, tenant);
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

/* --- idle tensors --- */

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

void tensor_begin_use(struct resident *resident)
{
    if (is_idle(resident))
        leave_idle(resident);
    resident->users++;
}

void tensor_end_use(struct tensor_store *store, struct resident *resident)
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

void tensor_give_name(struct tensor_store *store, struct resident *resident)
{
    resident->named = true;
    resident->by_name.name = resident->of_owner.name = resident->name;
    name_tree_insert(&store->named[resident->kind], &resident->by_name);
    name_tree_insert(&resident->owner->named[resident->kind], &resident->of_owner);
    store->counts[resident->kind]++;
}

void tensor_take_name(struct tensor_store *store, struct resident *resident)
{
    if (is_idle(resident))
        leave_idle(resident);
    resident->named = false;
    name_tree_remove(&store->named[resident->kind], &resident->by_name);
    name_tree_remove(&resident->owner->named[resident->kind], &resident->of_owner);
    store->counts[resident->kind]--;
    tensor_drop_copies(store, resident);
    if (resident->users == 0)
        tensor_free(store, resident);
}

void tensor_evict(struct tensor_store *store, struct resident *idle)
{
    tensor_take_name(store, idle);
    store->evictions++;
}
