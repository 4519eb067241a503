#include "server/shm/regions.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *next;
    struct region_owner owner;
    struct region region;
};

struct regions {
    pthread_mutex_t lock;
    struct region_limits limits;
    uint32_t count;
    struct entry *first; /* oldest first */
};

struct regions *regions_create(const struct region_limits *limits)
{
    struct regions *regions = calloc(1, sizeof *regions);
    if (regions == NULL)
        return NULL;
    regions->limits = *limits;
    if (pthread_mutex_init(&regions->lock, NULL) != 0) {
        free(regions);
        return NULL;
    }
    return regions;
}

void regions_set_tenant_limits(struct regions *regions, uint32_t tenant_regions,
                               uint64_t tenant_bytes)
{
    pthread_mutex_lock(&regions->lock);
    regions->limits.tenant_regions = tenant_regions;
    regions->limits.tenant_bytes = tenant_bytes;
    pthread_mutex_unlock(&regions->lock);
}

/* Frees an entry that has been removed from the list. */
static void entry_free(struct entry *entry)
{
    shm_mapping_release(entry->region.mapping);
    free(entry);
}

void regions_destroy(struct regions *regions)
{
    if (regions == NULL)
        return;
    while (regions->first != NULL) {
        struct entry *entry = regions->first;
        regions->first = entry->next;
        entry_free(entry);
    }
    pthread_mutex_destroy(&regions->lock);
    free(regions);
}

bool region_is_name(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t length = strlen(name);
    return length >= 1 && length <= REGION_NAME_MAX && strspn(name, allowed) == length;
}

static bool is_owner(const struct entry *entry, struct region_owner owner)
{
    return entry->owner.tenant == owner.tenant && entry->owner.user == owner.user;
}

/* The link to the owner's entry of a name, or to the end of the list. Under the lock. */
static struct entry **link_of(struct regions *regions, struct region_owner owner, const char *name)
{
    struct entry **link = &regions->first;
    while (*link != NULL && !(is_owner(*link, owner) && strcmp((*link)->region.name, name) == 0))
        link = &(*link)->next;
    return link;
}

/* Whether a tenant has room for one more region of `bytes`. Under the lock. */
static bool tenant_has_room(const struct regions *regions, uint32_t tenant, uint64_t bytes)
{
    const struct region_limits *limits = &regions->limits;
    uint64_t held = 0;
    uint32_t count = 0;
    for (const struct entry *entry = regions->first; entry != NULL; entry = entry->next) {
        if (entry->owner.tenant != tenant)
            continue;
        held += entry->region.bytes; /* mapped bytes, whose sum does not overflow */
        count++;
    }
    if (limits->tenant_regions > 0 && count >= limits->tenant_regions)
        return false;
    return limits->tenant_bytes == 0 || count == 0 ||
           (held <= limits->tenant_bytes && bytes <= limits->tenant_bytes - held);
}

enum gemmd_error regions_add(struct regions *regions, struct region_owner owner,
                             const struct region *region, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    struct entry *entry = malloc(sizeof *entry);
    if (entry == NULL) {
        shm_mapping_release(region->mapping);
        return fault_set(fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a region");
    }
    *entry = (struct entry){.owner = owner, .region = *region};
    pthread_mutex_lock(&regions->lock);
    struct entry **link = link_of(regions, owner, region->name);
    if (*link != NULL)
        code = fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                         "shared memory region '%s' is registered already; unregister it first",
                         region->name);
    else if (!tenant_has_room(regions, owner.tenant, region->bytes))
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "this tenant's shared memory regions have taken its share of the limits "
                         "(--tenant-share); unregister one first");
    else if (regions->count == regions->limits.regions)
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "there are %" PRIu32
                         " shared memory regions, which is the limit (--shm-regions)",
                         regions->limits.regions);
    if (code == GEMMD_OK) {
        *link = entry;
        regions->count++;
    }
    pthread_mutex_unlock(&regions->lock);
    if (code != GEMMD_OK)
        entry_free(entry);
    return code;
}

enum gemmd_error regions_find(struct regions *regions, struct region_owner owner, const char *name,
                              struct shm_mapping **mapping, struct fault *fault)
{
    pthread_mutex_lock(&regions->lock);
    const struct entry *entry = *link_of(regions, owner, name);
    if (entry != NULL) {
        *mapping = entry->region.mapping;
        shm_mapping_hold(*mapping);
    }
    pthread_mutex_unlock(&regions->lock);
    return entry != NULL
               ? GEMMD_OK
               : fault_set(fault, GEMMD_ERR_MALFORMED, NULL,
                           "there is no shared memory region '%.128s' of this client's", name);
}

void regions_remove(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                    const char *name)
{
    struct entry *removed = NULL;
    pthread_mutex_lock(&regions->lock);
    for (struct entry **link = &regions->first; *link != NULL;) {
        struct entry *entry = *link;
        if (!is_owner(entry, owner) || entry->region.kind != kind ||
            (name != NULL && strcmp(entry->region.name, name) != 0)) {
            link = &entry->next;
            continue;
        }
        *link = entry->next;
        entry->next = removed;
        removed = entry;
        regions->count--;
    }
    pthread_mutex_unlock(&regions->lock);
    while (removed != NULL) {
        struct entry *next = removed->next;
        entry_free(removed);
        removed = next;
    }
}

uint32_t regions_each(struct regions *regions, struct region_owner owner, enum shm_kind kind,
                      const char *name, void (*visit)(void *context, const struct region *region),
                      void *context)
{
    uint32_t count = 0;
    pthread_mutex_lock(&regions->lock);
    for (const struct entry *entry = regions->first; entry != NULL; entry = entry->next) {
        if (!is_owner(entry, owner) || entry->region.kind != kind ||
            (name != NULL && strcmp(entry->region.name, name) != 0))
            continue;
        visit(context, &entry->region);
        count++;
    }
    pthread_mutex_unlock(&regions->lock);
    return count;
}

uint32_t regions_count(struct regions *regions)
{
    pthread_mutex_lock(&regions->lock);
    const uint32_t count = regions->count;
    pthread_mutex_unlock(&regions->lock);
    return count;
}
