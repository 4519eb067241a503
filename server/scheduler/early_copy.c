/* Bodies are in the list `news` when the dispatch thread has to look at them, under the lock, and
 * then in its own list `closing` until their copies are over. */
#include "server/scheduler/early_copy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "server/device/device_copy.h"

enum { STOP_STEP_NS = 50000 };

struct early_copy_body {
    struct copy_in copies; /* first; the dispatch thread's until the body is closed */
    struct early_copy *early_copy;
    struct early_copy_body *next; /* in one of the lists */
    void *block;                  /* of the pool */
    uint64_t block_bytes, device_offset;
    uint64_t announced_bytes; /* the receiver's */

    /* Under the lock. */
    uint64_t landed_bytes;
    bool listed, closed;
};

struct early_copy {
    struct device *device;
    struct queue *queue;
    pthread_mutex_t lock;
    struct early_copy_body *news, **news_end;
    bool ending;  /* no more copies begin; */
    bool stopped; /* none is under way */
    /* The dispatch thread's. */
    struct pool_cache *memory;
    struct early_copy_body *closing;
};

struct early_copy *early_copy_create(struct device *device, struct queue *queue, struct pool *pool)
{
    struct early_copy *early_copy = malloc(sizeof *early_copy);
    if (early_copy == NULL)
        return NULL;
    *early_copy = (struct early_copy){.device = device, .queue = queue};
    early_copy->news_end = &early_copy->news;
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
static void list(struct early_copy *early_copy, struct early_copy_body *body)
{
    if (body->listed)
        return;
    body->listed = true;
    body->next = NULL;
    *early_copy->news_end = body;
    early_copy->news_end = &body->next;
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
    body->landed_bytes = bytes;
    if (!ending)
        list(early_copy, body);
    pthread_mutex_unlock(&early_copy->lock);
    if (!ending)
        queue_wake(early_copy->queue);
}

/* Nothing uses its memory any more. */
static void give_back(struct early_copy *early_copy, struct early_copy_body *body)
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
        list(early_copy, body);
    pthread_mutex_unlock(&early_copy->lock);
    if (!stopped)
        queue_wake(early_copy->queue);
    else
        free(body);
    return stopped;
}

/* The next body to look at, or NULL. */
static struct early_copy_body *take(struct early_copy *early_copy, uint64_t *landed_bytes,
                                    bool *closed)
{
    pthread_mutex_lock(&early_copy->lock);
    struct early_copy_body *body = early_copy->news;
    if (body != NULL) {
        body->listed = false;
        early_copy->news = body->next;
        if (early_copy->news == NULL)
            early_copy->news_end = &early_copy->news;
        *landed_bytes = body->landed_bytes;
        *closed = body->closed;
    }
    pthread_mutex_unlock(&early_copy->lock);
    return body;
}

/* Lets go of those closed bodies whose copies are over. */
static void let_go(struct early_copy *early_copy)
{
    struct early_copy_body **link = &early_copy->closing;
    while (*link != NULL) {
        struct early_copy_body *body = *link;
        if (device_copied_in(early_copy->device, &body->copies)) {
            *link = body->next;
            give_back(early_copy, body);
        } else {
            link = &body->next;
        }
    }
}

uint64_t early_copy_feed(struct early_copy *early_copy)
{
    struct early_copy_body *body;
    uint64_t landed_bytes, bytes = 0;
    bool closed;
    if (early_copy == NULL)
        return 0;
    while ((body = take(early_copy, &landed_bytes, &closed)) != NULL) {
        if (!closed) {
            bytes += device_copy_in(early_copy->device, &body->copies, landed_bytes);
            continue;
        }
        body->next = early_copy->closing;
        early_copy->closing = body;
    }
    let_go(early_copy);
    return bytes;
}

bool early_copy_is_closing(struct early_copy *early_copy)
{
    return early_copy != NULL && early_copy->closing != NULL;
}

/* Bodies may be open, with copies under way, when there is nothing more to close. */
static bool ends(struct early_copy *early_copy)
{
    (void)early_copy_feed(early_copy);
    if (early_copy->closing != NULL || !device_copies_are_over(early_copy->device))
        return false;
    pthread_mutex_lock(&early_copy->lock);
    early_copy->stopped = early_copy->news == NULL;
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
    while (!ends(early_copy))
        nanosleep(&(struct timespec){.tv_nsec = STOP_STEP_NS}, NULL);
}
