/*
 * A body whose next bytes were received, or that was closed, is in the list `changed`, under the
 * lock. The dispatch thread takes the bodies out of that list. It puts a closed body in its own
 * list `closing` until the body's copies have ended.
 */
#include "server/scheduler/early_copy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "server/device/device_copy.h"

/* Time between two looks whether the last copies have ended. */
enum { STOP_STEP_NS = 50000 };

struct early_copy_body {
    struct copy_in copies; /* used by the dispatch thread until the body is closed */
    struct early_copy *early_copy;
    struct early_copy_body *next; /* in `changed` or in `closing` */
    void *block;                  /* the body's memory, of the pool */
    uint64_t block_bytes, device_offset;
    uint64_t announced_bytes; /* used by the receiving thread: bytes that it has announced */

    /* Under the lock. */
    uint64_t received_bytes;
    bool listed; /* in `changed` */
    bool closed;
};

struct early_copy {
    struct device *device;
    struct queue *queue;

    pthread_mutex_t lock; /* of the next three */
    struct early_copy_body *changed, **changed_end;
    bool ending;  /* no more copies start */
    bool stopped; /* no copy is in flight either */

    /* Used by the dispatch thread. */
    struct pool_cache *memory;
    struct early_copy_body *closing;
};

struct early_copy *early_copy_create(struct device *device, struct queue *queue, struct pool *pool)
{
    struct early_copy *early_copy = malloc(sizeof *early_copy);
    if (early_copy == NULL)
        return NULL;
    *early_copy = (struct early_copy){.device = device, .queue = queue};
    early_copy->changed_end = &early_copy->changed;
    early_copy->memory = pool_cache_create(pool);
    if (early_copy->memory == NULL || pthread_mutex_init(&early_copy->lock, NULL) != 0) {
        pool_cache_destroy(early_copy->memory);
        free(early_copy);
        return NULL;
    }
    return early_copy;
}

void early_copy_destroy(struct early_copy *early_copy)
{
    if (early_copy == NULL)
        return;
    pthread_mutex_destroy(&early_copy->lock);
    pool_cache_destroy(early_copy->memory);
    free(early_copy);
}

struct early_copy_body *early_copy_open(struct early_copy *early_copy, const struct work *work,
                                        void *body, uint64_t body_bytes)
{
    if (early_copy == NULL || body_bytes < EARLY_COPY_BODY_BYTES || work->device_bytes == 0)
        return NULL;
    struct early_copy_body *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return NULL;
    *opened = (struct early_copy_body){.early_copy = early_copy,
                                       .block = body,
                                       .block_bytes = body_bytes,
                                       .device_offset = work->device_offset};
    if (!device_plan_copies(early_copy->device, work, (struct device_span){body, body_bytes},
                            &opened->copies)) {
        free(opened);
        return NULL;
    }
    return opened;
}

struct copy_in *early_copy_copies(struct early_copy_body *body)
{
    return &body->copies;
}

/* Under the lock. */
static void early_copy_list(struct early_copy *early_copy, struct early_copy_body *body)
{
    if (body->listed)
        return;
    body->listed = true;
    body->next = NULL;
    *early_copy->changed_end = body;
    early_copy->changed_end = &body->next;
}

void early_copy_received(struct early_copy_body *body, uint64_t bytes)
{
    if (body == NULL || bytes == body->announced_bytes ||
        (bytes - body->announced_bytes < EARLY_COPY_STEP_BYTES && bytes < body->block_bytes))
        return;
    struct early_copy *early_copy = body->early_copy;
    body->announced_bytes = bytes;
    pthread_mutex_lock(&early_copy->lock);
    const bool ending = early_copy->ending;
    body->received_bytes = bytes;
    if (!ending)
        early_copy_list(early_copy, body);
    pthread_mutex_unlock(&early_copy->lock);
    if (!ending)
        queue_wake(early_copy->queue);
}

/* Frees a body and its memory, which the device does not use any more. */
static void free_body(struct early_copy *early_copy, struct early_copy_body *body)
{
    arena_free(device_arena(early_copy->device), body->device_offset);
    pool_free(early_copy->memory, body->block, body->block_bytes);
    free(body);
}

bool early_copy_close(struct early_copy_body *body)
{
    if (body == NULL)
        return true;
    struct early_copy *early_copy = body->early_copy;
    if (body->announced_bytes == 0 || body->copies.over) {
        free(body);
        return true;
    }
    pthread_mutex_lock(&early_copy->lock);
    const bool stopped = early_copy->stopped;
    body->closed = true;
    if (!stopped)
        early_copy_list(early_copy, body);
    pthread_mutex_unlock(&early_copy->lock);
    if (!stopped)
        queue_wake(early_copy->queue);
    else
        free(body);
    return stopped;
}

/* Takes the next body out of `changed`; NULL: there is none. */
static struct early_copy_body *take_changed(struct early_copy *early_copy, uint64_t *received_bytes,
                                            bool *closed)
{
    pthread_mutex_lock(&early_copy->lock);
    struct early_copy_body *body = early_copy->changed;
    if (body != NULL) {
        body->listed = false;
        early_copy->changed = body->next;
        if (early_copy->changed == NULL)
            early_copy->changed_end = &early_copy->changed;
        *received_bytes = body->received_bytes;
        *closed = body->closed;
    }
    pthread_mutex_unlock(&early_copy->lock);
    return body;
}

/* Frees the closed bodies whose copies have ended. */
static void free_closed(struct early_copy *early_copy)
{
    struct early_copy_body **link = &early_copy->closing;
    while (*link != NULL) {
        struct early_copy_body *body = *link;
        if (device_copied_in(early_copy->device, &body->copies)) {
            *link = body->next;
            free_body(early_copy, body);
        } else {
            link = &body->next;
        }
    }
}

uint64_t early_copy_feed(struct early_copy *early_copy)
{
    struct early_copy_body *body;
    uint64_t received_bytes, bytes = 0;
    bool closed;
    while ((body = take_changed(early_copy, &received_bytes, &closed)) != NULL) {
        if (!closed) {
            bytes += device_copy_in(early_copy->device, &body->copies, received_bytes);
            continue;
        }
        body->next = early_copy->closing;
        early_copy->closing = body;
    }
    free_closed(early_copy);
    return bytes;
}

bool early_copy_is_closing(struct early_copy *early_copy)
{
    return early_copy->closing != NULL;
}

/* Stops unless bodies are being closed or copies are in flight. Open bodies may have copies in
 * flight too. */
static bool early_copy_try_stop(struct early_copy *early_copy)
{
    (void)early_copy_feed(early_copy);
    if (early_copy->closing != NULL || !device_copies_are_over(early_copy->device))
        return false;
    pthread_mutex_lock(&early_copy->lock);
    early_copy->stopped = early_copy->changed == NULL;
    pthread_mutex_unlock(&early_copy->lock);
    return early_copy->stopped;
}

void early_copy_stop(struct early_copy *early_copy)
{
    if (early_copy == NULL)
        return;
    pthread_mutex_lock(&early_copy->lock);
    early_copy->ending = true;
    pthread_mutex_unlock(&early_copy->lock);
    while (!early_copy_try_stop(early_copy))
        nanosleep(&(struct timespec){.tv_nsec = STOP_STEP_NS}, NULL);
}
