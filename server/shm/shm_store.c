#include "server/shm/shm_store.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/size_text.h"
#include "server/base/list.h"
#include "server/device/device.h"
#include "server/shm/mapped_file.h"
#include "server/shm/system_object.h"

struct shm_mapping {
    struct shm_store *store;
    struct list_item in_store;
    struct inbox_message unused; /* posted to the thread when the last reference is released */
    uint32_t references;         /* 0: about to be unmapped */
    enum shm_kind kind;
    dev_t volume; /* `volume` and `number` identify a memfd */
    ino_t number;
    struct mapped_file file;
    bool pinned;
    struct device *device; /* SHM_CUDA: the device that has the memory; else any device */
    unsigned char *start;
    uint64_t bytes;
};

struct shm_store {
    struct shm_limits limits;
    struct device *devices[SHM_DEVICES_MAX];
    uint32_t device_count;
    struct inbox inbox;
    struct inbox_message stop;
    bool stopping; /* used by the store's thread */
    pthread_t thread;

    pthread_mutex_t lock; /* of the fields below, and of the mappings' references */
    struct list mappings;
    uint64_t count, bytes;
    bool stopped;
};

/* --- counting; any thread --- */

/* Counts a mapping of `bytes`, unless a limit would be exceeded. */
static enum gemmd_error store_reserve(struct shm_store *store, uint64_t bytes, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    pthread_mutex_lock(&store->lock);
    const uint64_t free_bytes = store->limits.bytes - store->bytes;
    if (store->count == store->limits.mappings)
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "clients already have %" PRIu64
                         " shared-memory mappings, which is the limit (--shm-regions)",
                         store->count);
    else if (bytes > free_bytes)
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room for shared memory: %s needed, %s free of %s (--shm-bytes)",
                         size_text(bytes).text, size_text(free_bytes).text,
                         size_text(store->limits.bytes).text);
    if (code == GEMMD_OK) {
        store->count++;
        store->bytes += bytes;
    }
    pthread_mutex_unlock(&store->lock);
    return code;
}

static void store_release(struct shm_store *store, uint64_t bytes)
{
    pthread_mutex_lock(&store->lock);
    store->count--;
    store->bytes -= bytes;
    pthread_mutex_unlock(&store->lock);
}

/* Finds the mapping of a memfd that is mapped already, and adds a reference. Any client that has a
 * descriptor of the memfd may use it. */
static struct shm_mapping *find_memfd(struct shm_store *store, const struct stat *file)
{
    struct shm_mapping *found = NULL;
    pthread_mutex_lock(&store->lock);
    for (struct list_item *item = store->mappings.first; item != NULL && found == NULL;
         item = item->next) {
        struct shm_mapping *mapping = OWNER_OF(item, struct shm_mapping, in_store);
        if (mapping->kind == SHM_MEMFD && mapping->references > 0 &&
            mapping->volume == file->st_dev && mapping->number == file->st_ino)
            found = mapping;
    }
    if (found != NULL)
        found->references++;
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* --- mapping and unmapping; on the store's thread --- */

static void shm_unmap(struct inbox_message *message)
{
    struct shm_mapping *mapping = OWNER_OF(message, struct shm_mapping, unused);
    struct shm_store *store = mapping->store;
    if (mapping->kind == SHM_CUDA) {
        device_shm_enter(mapping->device);
        device_shm_close(mapping->device, mapping->start);
    } else {
        if (mapping->pinned)
            device_shm_unpin(mapping->device, mapping->start);
        mapped_file_close(&mapping->file);
    }
    store_release(store, mapping->bytes);
    free(mapping);
}

static enum gemmd_error map_file(struct shm_mapping *mapping, int fd, uint64_t offset,
                                 struct fault *fault)
{
    enum gemmd_error code = mapped_file_open(&mapping->file, fd, offset, mapping->bytes, fault);
    if (code != GEMMD_OK)
        return code;
    mapping->start = mapping->file.start;
    code = device_shm_pin(mapping->device, mapping->start, mapping->bytes, &mapping->pinned, fault);
    if (code != GEMMD_OK)
        mapped_file_close(&mapping->file);
    return code;
}

/* The device with a number. If there is none, the first device, whose device_shm_open then refuses
 * the number. */
static struct device *device_numbered(const struct shm_store *store, int32_t number)
{
    for (uint32_t i = 0; i < store->device_count; i++)
        if (device_info(store->devices[i])->index == number)
            return store->devices[i];
    return store->devices[0];
}

static enum gemmd_error open_device_memory(struct shm_mapping *mapping,
                                           const struct shm_offer *offer, struct fault *fault)
{
    void *start = NULL;
    device_shm_enter(mapping->device);
    const enum gemmd_error code = device_shm_open(mapping->device, &offer->handle, offer->device,
                                                  mapping->bytes, &start, fault);
    mapping->start = start;
    return code;
}

/* Counts a new mapping and maps the memory. NULL: offer->fault says why not. */
static struct shm_mapping *mapping_create(struct shm_offer *offer, int fd, uint64_t bytes)
{
    struct shm_store *store = offer->store;
    struct shm_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL) {
        fault_set(&offer->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL,
                  "no memory for the record of a mapping");
        return NULL;
    }
    *mapping = (struct shm_mapping){.store = store,
                                    .unused.act = shm_unmap,
                                    .references = 1,
                                    .kind = offer->kind,
                                    .device = store->devices[0],
                                    .bytes = bytes};
    if (offer->kind == SHM_CUDA)
        mapping->device = device_numbered(store, offer->device);
    if (store_reserve(store, bytes, &offer->fault) != GEMMD_OK)
        goto no_room;
    enum gemmd_error code = offer->kind == SHM_CUDA
                                ? open_device_memory(mapping, offer, &offer->fault)
                                : map_file(mapping, fd, offer->offset, &offer->fault);
    if (code != GEMMD_OK)
        goto not_mapped;
    return mapping;

not_mapped:
    store_release(store, bytes);
no_room:
    free(mapping);
    return NULL;
}

/* Adds a mapping, unless it is NULL, to the store's list, where find_memfd finds it. Returns the
 * mapping. */
static struct shm_mapping *list_mapping(struct shm_mapping *mapping)
{
    if (mapping == NULL)
        return NULL;
    pthread_mutex_lock(&mapping->store->lock);
    list_append(&mapping->store->mappings, &mapping->in_store);
    pthread_mutex_unlock(&mapping->store->lock);
    return mapping;
}

static struct shm_mapping *map_memfd(struct shm_offer *offer)
{
    struct stat file;
    if (!mapped_file_is_sealed(offer->fd) || fstat(offer->fd, &file) != 0) {
        fault_set(&offer->fault, GEMMD_ERR_MALFORMED, NULL,
                  "the descriptor is not that of a memfd sealed against shrinking");
        return NULL;
    }
    /* The client's own descriptor must be writable, even if the memfd is mapped already with the
     * descriptor of another client. */
    if (!mapped_file_is_writable(offer->fd)) {
        fault_set(&offer->fault, GEMMD_ERR_MALFORMED, NULL,
                  "the descriptor of the memfd is not open for reading and writing");
        return NULL;
    }
    struct shm_mapping *mapping = find_memfd(offer->store, &file);
    if (mapping != NULL)
        return mapping;
    offer->offset = 0;
    mapping = mapping_create(offer, offer->fd, (uint64_t)file.st_size);
    if (mapping != NULL) {
        mapping->volume = file.st_dev;
        mapping->number = file.st_ino;
    }
    return list_mapping(mapping);
}

static struct shm_mapping *map_object(struct shm_offer *offer)
{
    int fd;
    if (system_object_open(offer->key, offer->user, &fd, &offer->fault) != GEMMD_OK)
        return NULL;
    struct shm_mapping *mapping = list_mapping(mapping_create(offer, fd, offer->bytes));
    close(fd);
    return mapping;
}

static void shm_map(struct inbox_message *message)
{
    struct shm_offer *offer = OWNER_OF(message, struct shm_offer, message);
    switch (offer->kind) {
    case SHM_MEMFD:
        offer->mapping = map_memfd(offer);
        close(offer->fd);
        break;
    case SHM_SYSTEM:
        offer->mapping = map_object(offer);
        break;
    case SHM_CUDA:
        offer->mapping = list_mapping(mapping_create(offer, -1, offer->bytes));
        break;
    }
    offer->done(offer);
}

static void shm_stop(struct inbox_message *message)
{
    OWNER_OF(message, struct shm_store, stop)->stopping = true;
}

static void *shm_run(void *argument)
{
    struct shm_store *store = argument;
    pthread_setname_np(pthread_self(), "shm");
    device_shm_enter(store->devices[0]);
    while (!store->stopping) {
        inbox_wait(&store->inbox, NULL, 0, -1);
        inbox_act(&store->inbox);
    }
    return NULL;
}

/* --- the interface --- */

struct shm_store *shm_store_create(const struct shm_limits *limits, struct device *const devices[],
                                   uint32_t count)
{
    struct shm_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    store->limits = *limits;
    store->device_count = count;
    for (uint32_t i = 0; i < count; i++)
        store->devices[i] = devices[i];
    store->stop.act = shm_stop;
    if (pthread_mutex_init(&store->lock, NULL) != 0)
        goto no_lock;
    if (!inbox_open(&store->inbox))
        goto no_inbox;
    if (pthread_create(&store->thread, NULL, shm_run, store) != 0)
        goto no_thread;
    return store;

no_thread:
    inbox_close(&store->inbox);
no_inbox:
    pthread_mutex_destroy(&store->lock);
no_lock:
    free(store);
    return NULL;
}

void shm_store_stop(struct shm_store *store)
{
    if (store == NULL)
        return;
    pthread_mutex_lock(&store->lock);
    store->stopped = true;
    inbox_post(&store->inbox, &store->stop);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->thread, NULL);
}

void shm_store_destroy(struct shm_store *store)
{
    if (store == NULL)
        return;
    device_shm_enter(store->devices[0]);
    inbox_act(&store->inbox);
    inbox_close(&store->inbox);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

void shm_store_map(struct shm_store *store, struct shm_offer *offer)
{
    offer->store = store;
    offer->message.act = shm_map;
    offer->mapping = NULL;
    pthread_mutex_lock(&store->lock);
    const bool stopped = store->stopped;
    if (!stopped)
        inbox_post(&store->inbox, &offer->message);
    pthread_mutex_unlock(&store->lock);
    if (!stopped)
        return;
    if (offer->kind == SHM_MEMFD)
        close(offer->fd);
    fault_set(&offer->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    offer->done(offer);
}

void shm_mapping_hold(struct shm_mapping *mapping)
{
    pthread_mutex_lock(&mapping->store->lock);
    mapping->references++;
    pthread_mutex_unlock(&mapping->store->lock);
}

void shm_mapping_release(struct shm_mapping *mapping)
{
    if (mapping == NULL)
        return;
    struct shm_store *store = mapping->store;
    pthread_mutex_lock(&store->lock);
    const bool last = --mapping->references == 0;
    if (last)
        list_remove(&mapping->in_store);
    pthread_mutex_unlock(&store->lock);
    if (last)
        inbox_post(&store->inbox, &mapping->unused);
}

uint64_t shm_mapping_bytes(const struct shm_mapping *mapping)
{
    return mapping->bytes;
}

const struct device *shm_mapping_device(const struct shm_mapping *mapping)
{
    return mapping->kind == SHM_CUDA ? mapping->device : NULL;
}

bool shm_mapping_is_on_device(const struct shm_mapping *mapping)
{
    return mapping->kind == SHM_CUDA;
}

unsigned char *shm_mapping_at(const struct shm_mapping *mapping, uint64_t offset, uint64_t bytes)
{
    if (bytes > mapping->bytes || offset > mapping->bytes - bytes)
        return NULL;
    return mapping->start + offset;
}

bool shm_mapping_is_whole(const struct shm_mapping *mapping)
{
    return mapping->kind == SHM_CUDA || mapped_file_is_whole(&mapping->file);
}

struct shm_counts shm_store_counts(struct shm_store *store)
{
    pthread_mutex_lock(&store->lock);
    const struct shm_counts counts = {.mappings = store->count,
                                      .bytes = store->bytes,
                                      .capacity_mappings = store->limits.mappings,
                                      .capacity_bytes = store->limits.bytes};
    pthread_mutex_unlock(&store->lock);
    return counts;
}
