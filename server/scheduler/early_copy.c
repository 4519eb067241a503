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
    struct early_copy *intake;
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
    struct early_copy *intake = malloc(sizeof *intake);
    if (intake == NULL)
        return NULL;
    *intake = (struct early_copy){.device = device, .queue = queue};
    intake->news_end = &intake->news;
    intake->memory = pool_cache_create(pool);
    if (intake->memory == NULL || pthread_mutex_init(&intake->lock, NULL) != 0) {
        pool_cache_destroy(intake->memory);
        free(intake);
        return NULL;
    }
    return intake;
}

void early_copy_destroy(struct early_copy *intake)
{
    if (intake == NULL)
        return;
    pthread_mutex_destroy(&intake->lock);
    pool_cache_destroy(intake->memory);
    free(intake);
}

struct early_copy_body *early_copy_open(struct early_copy *intake, const struct work *work,
                                        void *body, uint64_t body_bytes)
{
    if (intake == NULL || body_bytes < EARLY_COPY_BODY_BYTES || work->device_bytes == 0)
        return NULL;
    struct early_copy_body *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return NULL;
    *opened = (struct early_copy_body){.intake = intake,
                                       .block = body,
                                       .block_bytes = body_bytes,
                                       .device_offset = work->device_offset};
    if (!device_plan_copies(intake->device, work, (struct device_span){body, body_bytes},
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
static void list(struct early_copy *intake, struct early_copy_body *body)
{
    if (body->listed)
        return;
    body->listed = true;
    body->next = NULL;
    *intake->news_end = body;
    intake->news_end = &body->next;
}

void early_copy_landed(struct early_copy_body *body, uint64_t bytes)
{
    if (body == NULL || bytes == body->announced_bytes ||
        (bytes - body->announced_bytes < EARLY_COPY_STEP_BYTES && bytes < body->block_bytes))
        return;
    struct early_copy *intake = body->intake;
    body->announced_bytes = bytes;
    pthread_mutex_lock(&intake->lock);
    const bool ending = intake->ending;
    body->landed_bytes = bytes;
    if (!ending)
        list(intake, body);
    pthread_mutex_unlock(&intake->lock);
    if (!ending)
        queue_wake(intake->queue);
}

/* Nothing uses its memory any more. */
static void give_back(struct early_copy *intake, struct early_copy_body *body)
{
    arena_free(device_arena(intake->device), body->device_offset);
    pool_free(intake->memory, body->block, body->block_bytes);
    free(body);
}

bool early_copy_close(struct early_copy_body *body)
{
    if (body == NULL)
        return true;
    struct early_copy *intake = body->intake;
    if (body->announced_bytes == 0 || body->copies.over) {
        free(body);
        return true;
    }
    pthread_mutex_lock(&intake->lock);
    const bool stopped = intake->stopped;
    body->closed = true;
    if (!stopped)
        list(intake, body);
    pthread_mutex_unlock(&intake->lock);
    if (!stopped)
        queue_wake(intake->queue);
    else
        free(body);
    return stopped;
}

/* The next body to look at, or NULL. */
static struct early_copy_body *take(struct early_copy *intake, uint64_t *landed_bytes, bool *closed)
{
    pthread_mutex_lock(&intake->lock);
    struct early_copy_body *body = intake->news;
    if (body != NULL) {
        body->listed = false;
        intake->news = body->next;
        if (intake->news == NULL)
            intake->news_end = &intake->news;
        *landed_bytes = body->landed_bytes;
        *closed = body->closed;
    }
    pthread_mutex_unlock(&intake->lock);
    return body;
}

/* Lets go of those closed bodies whose copies are over. */
static void let_go(struct early_copy *intake)
{
    struct early_copy_body **link = &intake->closing;
    while (*link != NULL) {
        struct early_copy_body *body = *link;
        if (device_copied_in(intake->device, &body->copies)) {
            *link = body->next;
            give_back(intake, body);
        } else {
            link = &body->next;
        }
    }
}

uint64_t early_copy_feed(struct early_copy *intake)
{
    struct early_copy_body *body;
    uint64_t landed_bytes, bytes = 0;
    bool closed;
    if (intake == NULL)
        return 0;
    while ((body = take(intake, &landed_bytes, &closed)) != NULL) {
        if (!closed) {
            bytes += device_copy_in(intake->device, &body->copies, landed_bytes);
            continue;
        }
        body->next = intake->closing;
        intake->closing = body;
    }
    let_go(intake);
    return bytes;
}

bool early_copy_is_closing(struct early_copy *intake)
{
    return intake != NULL && intake->closing != NULL;
}

/* Bodies may be open, with copies under way, when there is nothing more to close. */
static bool ends(struct early_copy *intake)
{
    (void)early_copy_feed(intake);
    if (intake->closing != NULL || !device_copies_are_over(intake->device))
        return false;
    pthread_mutex_lock(&intake->lock);
    intake->stopped = intake->news == NULL;
    pthread_mutex_unlock(&intake->lock);
    return intake->stopped;
}

void early_copy_stop(struct early_copy *intake)
{
    if (intake == NULL)
        return;
    pthread_mutex_lock(&intake->lock);
    intake->ending = true;
    pthread_mutex_unlock(&intake->lock);
    while (!ends(intake))
        nanosleep(&(struct timespec){.tv_nsec = STOP_STEP_NS}, NULL);
}
