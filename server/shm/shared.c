#include "server/shm/shared.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/shm/mapping.h"
#include "server/shm/system_object.h"

struct shared_memory {
    struct shared *shared;
    struct shared_memory *next, *previous; /* the store's list */
    struct inbox_message unused;           /* to the thread, with the last reference gone */
    uint32_t references;                   /* 0: about to go */
    enum shared_kind kind;
    dev_t volume; /* of a memfd, with the next one: which it is */
    ino_t number;
    struct mapping mapping;
    bool pinned;
    unsigned char *start;
    uint64_t bytes;
};

struct shared {
    struct shared_limits limits;
    struct device *device;
    struct inbox inbox;
    struct inbox_message stop;
    bool stopping; /* the thread's */
    pthread_t thread;

    pthread_mutex_t lock; /* of the rest, and of the memories' references */
    struct shared_memory *memories;
    uint64_t count, bytes;
    bool stopped;
};

/* ---- the books ---- */

static void link_memory(struct shared_memory *memory)
{
    struct shared *shared = memory->shared;
    memory->next = shared->memories;
    if (memory->next != NULL)
        memory->next->previous = memory;
    shared->memories = memory;
}

static void unlink_memory(struct shared_memory *memory)
{
    if (memory->previous != NULL)
        memory->previous->next = memory->next;
    else
        memory->shared->memories = memory->next;
    if (memory->next != NULL)
        memory->next->previous = memory->previous;
}

static enum gemmd_error reserve(struct shared *shared, uint64_t bytes, struct fault *fault)
{
    enum gemmd_error code = GEMMD_OK;
    pthread_mutex_lock(&shared->lock);
    const uint64_t free_bytes = shared->limits.bytes - shared->bytes;
    if (shared->count == shared->limits.memories)
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "clients share %" PRIu64 " memories already, as many as can be",
                         shared->count);
    else if (bytes > free_bytes)
        code = fault_set(fault, GEMMD_ERR_NO_ROOM, NULL,
                         "no room to share memory: %" PRIu64 " bytes needed, %" PRIu64 " free",
                         bytes, free_bytes);
    if (code == GEMMD_OK) {
        shared->count++;
        shared->bytes += bytes;
    }
    pthread_mutex_unlock(&shared->lock);
    return code;
}

static void give_back(struct shared *shared, uint64_t bytes)
{
    pthread_mutex_lock(&shared->lock);
    shared->count--;
    shared->bytes -= bytes;
    pthread_mutex_unlock(&shared->lock);
}

/* A memfd that is mapped already. Whoever has its descriptor may use it. */
static struct shared_memory *find_memfd(struct shared *shared, const struct stat *file)
{
    struct shared_memory *memory;
    pthread_mutex_lock(&shared->lock);
    for (memory = shared->memories; memory != NULL; memory = memory->next)
        if (memory->kind == SHARED_MEMFD && memory->references > 0 &&
            memory->volume == file->st_dev && memory->number == file->st_ino)
            break;
    if (memory != NULL)
        memory->references++;
    pthread_mutex_unlock(&shared->lock);
    return memory;
}

/* ---- taking and letting go, on the thread ---- */

static void let_go(struct inbox_message *message)
{
    struct shared_memory *memory = INBOX_OWNER(message, struct shared_memory, unused);
    struct shared *shared = memory->shared;
    if (memory->kind == SHARED_CUDA) {
        device_share_close(shared->device, memory->start);
    } else {
        if (memory->pinned)
            device_share_unpin(shared->device, memory->start);
        mapping_close(&memory->mapping);
    }
    give_back(shared, memory->bytes);
    free(memory);
}

static enum gemmd_error map(struct shared_memory *memory, int fd, uint64_t offset,
                            struct fault *fault)
{
    struct device *device = memory->shared->device;
    enum gemmd_error code = mapping_open(&memory->mapping, fd, offset, memory->bytes, fault);
    if (code != GEMMD_OK)
        return code;
    memory->start = memory->mapping.start;
    code = device_share_pin(device, memory->start, memory->bytes, &memory->pinned, fault);
    if (code != GEMMD_OK)
        mapping_close(&memory->mapping);
    return code;
}

/* Makes a memory, reserves its place and maps it. */
static struct shared_memory *make(struct shared_offer *offer, int fd, uint64_t bytes)
{
    struct shared *shared = offer->shared;
    struct shared_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        fault_set(&offer->fault, GEMMD_ERR_OUT_OF_MEMORY, NULL, "no memory for a memory's record");
        return NULL;
    }
    *memory = (struct shared_memory){.shared = shared,
                                     .unused.act = let_go,
                                     .references = 1,
                                     .kind = offer->kind,
                                     .bytes = bytes};
    if (reserve(shared, bytes, &offer->fault) != GEMMD_OK)
        goto no_room;
    void *start = NULL;
    enum gemmd_error code = offer->kind == SHARED_CUDA
                                ? device_share_open(shared->device, &offer->handle, offer->device,
                                                    bytes, &start, &offer->fault)
                                : map(memory, fd, offer->offset, &offer->fault);
    if (code != GEMMD_OK)
        goto not_mapped;
    if (start != NULL)
        memory->start = start;
    return memory;

not_mapped:
    give_back(shared, bytes);
no_room:
    free(memory);
    return NULL;
}

static struct shared_memory *publish(struct shared_memory *memory)
{
    if (memory == NULL)
        return NULL;
    pthread_mutex_lock(&memory->shared->lock);
    link_memory(memory);
    pthread_mutex_unlock(&memory->shared->lock);
    return memory;
}

static struct shared_memory *take_memfd(struct shared_offer *offer)
{
    struct stat file;
    if (!mapping_is_sealed(offer->fd) || fstat(offer->fd, &file) != 0) {
        fault_set(&offer->fault, GEMMD_ERR_MALFORMED, NULL,
                  "the descriptor is not that of a memfd sealed against shrinking");
        return NULL;
    }
    struct shared_memory *memory = find_memfd(offer->shared, &file);
    if (memory != NULL)
        return memory;
    offer->offset = 0;
    memory = make(offer, offer->fd, (uint64_t)file.st_size);
    if (memory != NULL) {
        memory->volume = file.st_dev;
        memory->number = file.st_ino;
    }
    return publish(memory);
}

static struct shared_memory *take_object(struct shared_offer *offer)
{
    int fd;
    if (system_object_open(offer->key, offer->user, &fd, &offer->fault) != GEMMD_OK)
        return NULL;
    struct shared_memory *memory = publish(make(offer, fd, offer->bytes));
    close(fd);
    return memory;
}

static void take(struct inbox_message *message)
{
    struct shared_offer *offer = INBOX_OWNER(message, struct shared_offer, message);
    switch (offer->kind) {
    case SHARED_MEMFD:
        offer->memory = take_memfd(offer);
        close(offer->fd);
        break;
    case SHARED_SYSTEM:
        offer->memory = take_object(offer);
        break;
    case SHARED_CUDA:
        offer->memory = publish(make(offer, -1, offer->bytes));
        break;
    }
    offer->done(offer);
}

static void stop(struct inbox_message *message)
{
    INBOX_OWNER(message, struct shared, stop)->stopping = true;
}

static void *run(void *argument)
{
    struct shared *shared = argument;
    pthread_setname_np(pthread_self(), "shared");
    device_share_enter(shared->device);
    while (!shared->stopping) {
        inbox_wait(&shared->inbox, NULL, 0, -1);
        inbox_act(&shared->inbox);
    }
    return NULL;
}

/* ---- what others call ---- */

struct shared *shared_create(const struct shared_limits *limits, struct device *device)
{
    struct shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        return NULL;
    shared->limits = *limits;
    shared->device = device;
    shared->stop.act = stop;
    if (pthread_mutex_init(&shared->lock, NULL) != 0)
        goto no_lock;
    if (!inbox_open(&shared->inbox))
        goto no_inbox;
    if (pthread_create(&shared->thread, NULL, run, shared) != 0)
        goto no_thread;
    return shared;

no_thread:
    inbox_close(&shared->inbox);
no_inbox:
    pthread_mutex_destroy(&shared->lock);
no_lock:
    free(shared);
    return NULL;
}

void shared_stop(struct shared *shared)
{
    if (shared == NULL)
        return;
    pthread_mutex_lock(&shared->lock);
    shared->stopped = true;
    inbox_post(&shared->inbox, &shared->stop);
    pthread_mutex_unlock(&shared->lock);
    pthread_join(shared->thread, NULL);
}

void shared_destroy(struct shared *shared)
{
    if (shared == NULL)
        return;
    device_share_enter(shared->device);
    inbox_act(&shared->inbox);
    inbox_close(&shared->inbox);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

void shared_take(struct shared *shared, struct shared_offer *offer)
{
    offer->shared = shared;
    offer->message.act = take;
    offer->memory = NULL;
    pthread_mutex_lock(&shared->lock);
    const bool stopped = shared->stopped;
    if (!stopped)
        inbox_post(&shared->inbox, &offer->message);
    pthread_mutex_unlock(&shared->lock);
    if (!stopped)
        return;
    if (offer->kind == SHARED_MEMFD)
        close(offer->fd);
    fault_set(&offer->fault, GEMMD_ERR_DRAINING, NULL, "the daemon is shutting down");
    offer->done(offer);
}

void shared_use(struct shared_memory *memory)
{
    pthread_mutex_lock(&memory->shared->lock);
    memory->references++;
    pthread_mutex_unlock(&memory->shared->lock);
}

void shared_release(struct shared_memory *memory)
{
    if (memory == NULL)
        return;
    struct shared *shared = memory->shared;
    pthread_mutex_lock(&shared->lock);
    const bool last = --memory->references == 0;
    if (last)
        unlink_memory(memory);
    pthread_mutex_unlock(&shared->lock);
    if (last)
        inbox_post(&shared->inbox, &memory->unused);
}

uint64_t shared_bytes(const struct shared_memory *memory)
{
    return memory->bytes;
}

bool shared_is_on_device(const struct shared_memory *memory)
{
    return memory->kind == SHARED_CUDA;
}

unsigned char *shared_at(const struct shared_memory *memory, uint64_t offset, uint64_t bytes)
{
    if (bytes > memory->bytes || offset > memory->bytes - bytes)
        return NULL;
    return memory->start + offset;
}

bool shared_is_whole(const struct shared_memory *memory)
{
    return memory->kind == SHARED_CUDA || mapping_is_whole(&memory->mapping);
}

struct shared_counts shared_counts(struct shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    const struct shared_counts counts = {.memories = shared->count,
                                         .bytes = shared->bytes,
                                         .capacity_memories = shared->limits.memories,
                                         .capacity_bytes = shared->limits.bytes};
    pthread_mutex_unlock(&shared->lock);
    return counts;
}
