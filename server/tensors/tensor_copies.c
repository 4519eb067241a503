/*
 * Copies of resident tensors on further devices. If the device that computes a request lacks the
 * request's resident operand, the request's work copies the operand to that device. The store keeps
 * the copy for further requests, until the memory is needed for something else.
 */
#include "server/tensors/tensor_store_parts.h"

/* --- copies that are kept and not in use; under the lock --- */

static bool is_idle_copy(const struct resident *copy)
{
    return copy->original != NULL && copy->users == 0;
}

static void enter_idle_copies(struct tensor_store *store, struct resident *copy)
{
    struct memory *memory = &store->memories[copy->device];
    copy->newer = NULL;
    copy->older = memory->newest;
    *(memory->newest != NULL ? &memory->newest->newer : &memory->oldest) = copy;
    memory->newest = copy;
}

static void leave_idle_copies(struct tensor_store *store, struct resident *copy)
{
    struct memory *memory = &store->memories[copy->device];
    *(copy->older != NULL ? &copy->older->newer : &memory->oldest) = copy->newer;
    *(copy->newer != NULL ? &copy->newer->older : &memory->newest) = copy->older;
}

void tensor_copy_begin_use(struct tensor_store *store, struct resident *copy)
{
    if (is_idle_copy(copy))
        leave_idle_copies(store, copy);
    copy->users++;
}

void tensor_copy_end_use(struct tensor_store *store, struct resident *copy)
{
    copy->users--;
    if (is_idle_copy(copy))
        enter_idle_copies(store, copy);
    else if (copy->users == 0)
        tensor_free(store, copy);
}

void tensor_drop_copy(struct tensor_store *store, struct resident *copy)
{
    struct resident *original = copy->original;
    if (is_idle_copy(copy))
        leave_idle_copies(store, copy);
    original->copies[copy->device] = NULL;
    atomic_fetch_and(&original->places, ~(1u << copy->device));
    copy->original = NULL;
    if (copy->users == 0)
        tensor_free(store, copy);
}

void tensor_drop_copies(struct tensor_store *store, struct resident *original)
{
    for (uint32_t i = 0; i < store->devices; i++)
        if (original->copies[i] != NULL)
            tensor_drop_copy(store, original->copies[i]);
}

bool tensor_evict_copy(struct tensor_store *store, uint32_t device)
{
    struct resident *copy = store->memories[device].oldest;
    if (copy == NULL)
        return false;
    tensor_drop_copy(store, copy);
    return true;
}

/* --- the interface --- */

struct resident *tensor_store_acquire_copy(struct tensor_store *store, struct resident *resident,
                                           uint32_t device)
{
    pthread_mutex_lock(&store->lock);
    struct resident *copy = resident->copies[device];
    if (copy != NULL)
        tensor_copy_begin_use(store, copy);
    pthread_mutex_unlock(&store->lock);
    return copy;
}

void tensor_store_end_copy(struct tensor_store *store, struct resident *resident,
                           struct resident *copy, bool complete)
{
    if (copy == NULL)
        return;
    const uint32_t device = copy->device;
    pthread_mutex_lock(&store->lock);
    atomic_fetch_and(&resident->arriving, ~(1u << device));
    if (complete && resident->named && resident->copies[device] == NULL &&
        !store->memories[device].lost) {
        copy->original = resident;
        resident->copies[device] = copy;
        atomic_fetch_or(&resident->places, 1u << device);
    }
    tensor_copy_end_use(store, copy);
    pthread_mutex_unlock(&store->lock);
}
